"""Settings of topics, brokers and groups are shown with their source, and changed one by one."""

import time

from tests.cli.conftest import Shell, Target

Rows = dict[str, dict[str, object]]


def by_name(entries: list[dict[str, object]]) -> Rows:
    return {str(entry["name"]): entry for entry in entries}


def changed(cli: Shell, target: Target, entity: tuple[str, str], name: str, value: str) -> dict[str, object]:
    """A setting that has just got a value. Apache Kafka answers a change before its broker has
    it."""
    deadline = time.monotonic() + (60 if target.name == "kafka" else 0)
    while True:
        entry = by_name(cli("configs", "describe", *entity, "--all", "--json").json)[name]
        if entry["value"] == value or time.monotonic() > deadline:
            return entry


def test_a_setting_is_shown_with_its_source(cli: Shell, target: Target, topic: str) -> None:
    cli("configs", "alter", "topic", topic, "--set", "retention.ms=1234")
    changed(cli, target, ("topic", topic), "retention.ms", "1234")
    entry = by_name(cli("configs", "describe", "topic", topic, "--json").json)["retention.ms"]
    assert (entry["value"], entry["source"], entry["read_only"]) == ("1234", "topic", False)
    everything = by_name(cli("configs", "describe", "topic", topic, "--all", "--json").json)
    assert everything["segment.bytes"]["source"] == "default"
    assert len(everything) > 20
    text = cli("configs", "describe", "topic", topic, "-k", "retention.ms", "--synonyms").text
    assert "retention.ms=1234 (topic)" in text


def test_lists_grow_and_shrink_and_settings_go_back(cli: Shell, target: Target, topic: str) -> None:
    def policy_is(policy: str) -> bool:
        return changed(cli, target, ("topic", topic), "cleanup.policy", policy)["value"] == policy

    cli("configs", "alter", "topic", topic, "--append", "cleanup.policy=compact")
    assert policy_is("delete,compact")
    cli("configs", "alter", "topic", topic, "--subtract", "cleanup.policy=delete")
    assert policy_is("compact")
    cli("configs", "alter", "topic", topic, "--delete", "cleanup.policy")
    assert policy_is("delete")
    both = ("--append", "cleanup.policy=compact", "--append", "cleanup.policy=delete")
    cli("configs", "alter", "topic", topic, *both)
    assert policy_is("delete,compact")


def test_wrong_values_and_names_change_nothing(cli: Shell, topic: str) -> None:
    bad = ("configs", "alter", "topic", topic, "--set", "retention.ms=7", "--set", "cleanup.policy=shred")
    assert "INVALID_CONFIG" in cli(*bad, code=1).stderr
    cli("configs", "alter", "topic", topic, "--set", "retention.ms=7", "--validate-only")
    assert "retention.ms" not in by_name(cli("configs", "describe", "topic", topic, "--json").json)
    assert "no setting no.such" in cli("configs", "describe", "topic", topic, "-k", "no.such", code=1).stderr
    assert "nothing to alter" in cli("configs", "alter", "topic", topic, code=2).stderr
    assert "UNKNOWN_TOPIC" in cli("configs", "describe", "topic", f"{topic}-not", code=1).stderr


def test_a_brokers_settings_change_while_it_runs(cli: Shell, target: Target) -> None:
    broker = cli("cluster", "describe", "--json").json["brokers"][0]["id"]
    cli("configs", "alter", "broker", broker, "--set", "log.retention.ms=123456789")
    changed(cli, target, ("broker", broker), "log.retention.ms", "123456789")
    entry = by_name(cli("configs", "describe", "broker", broker, "--json").json)["log.retention.ms"]
    assert (entry["value"], entry["source"]) == ("123456789", "broker")
    cli("configs", "alter", "broker", broker, "--delete", "log.retention.ms")
    read_only = by_name(cli("configs", "describe", "broker", broker, "--all", "--json").json)["log.dirs"]
    assert read_only["read_only"] is True
    assert (
        "INVALID_REQUEST" in cli("configs", "alter", "broker", broker, "--set", "log.dirs=/x", code=1).stderr
    )


def test_a_number_of_processes_is_stored_for_the_next_start(cli: Shell) -> None:
    broker = cli("cluster", "describe", "--json").json["brokers"][0]["id"]
    entity = ("broker", broker)
    name = "num.network.threads"
    now = by_name(cli("configs", "describe", *entity, "--all", "--json").json)[name]["value"]
    sets = ("--set", f"{name}={2 * int(str(now))}", "--set", "log.retention.ms=123456789")
    altered = cli("configs", "alter", *entity, *sets)
    assert f"{name}: kbroker stores it, and uses it from its next start on" in altered.stderr
    assert "log.retention.ms: kbroker stores" not in altered.stderr
    deleted = cli("configs", "alter", *entity, "--delete", name, "--delete", "log.retention.ms")
    assert f"{name}: kbroker stores it" in deleted.stderr


def test_groups_have_settings_too(cli: Shell, target: Target, group: str) -> None:
    name = "consumer.session.timeout.ms"
    cli("configs", "alter", "group", group, "--set", f"{name}=50000")
    changed(cli, target, ("group", group), name, "50000")
    entry = by_name(cli("configs", "describe", "group", group, "--json").json)[name]
    assert (entry["value"], entry["source"]) == ("50000", "group")


def test_levels_of_loggers_change_while_the_broker_runs(cli: Shell) -> None:
    broker = cli("cluster", "describe", "--json").json["brokers"][0]["id"]
    entity = ("broker-logger", broker)
    before = by_name(cli("configs", "describe", *entity, "--json").json)["root"]
    assert before["source"] == "logger"
    name = next(
        n for n in by_name(cli("configs", "describe", *entity, "--all", "--json").json) if n != "root"
    )
    cli("configs", "alter", *entity, "--set", f"{name}=DEBUG")
    assert by_name(cli("configs", "describe", *entity, "--json").json)[name]["value"] == "DEBUG"
    cli("configs", "alter", *entity, "--delete", name)
    assert "LOUD" in cli("configs", "alter", *entity, "--set", f"{name}=LOUD", code=1).stderr
    assert "expected a broker id" in cli("configs", "describe", "broker-logger", "one", code=2).stderr
