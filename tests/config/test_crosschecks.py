"""Settings that contradict each other stop the start; texts as KafkaConfig has them."""

import pytest

from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.crosschecks import MAX_UNKNOWN, warnings_of, without_effect
from kbroker.config.setting import ConfigError


@pytest.mark.parametrize(
    ("static", "text"),
    [
        ({"process.roles": "controller"}, "kbroker is always a broker"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"cordoned.log.dirs": "/x", "log.dirs": "/a"},
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /x",
        ),
        (
            {"cordoned.log.dirs": "*,/a", "log.dirs": "/a"},
            "When cordoned.log.dirs is set to *, it must not contain other values",
        ),
        ({"log.cleaner.threads": "0"}, "Value must be at least 1"),
        ({"num.network.threads": "64"}, "num.network.threads: Value must be no more than 63"),
        ({"num.io.threads": "129"}, "num.io.threads: Value must be no more than 128"),
        (
            {"num.recovery.threads.per.data.dir": "257"},
            "num.recovery.threads.per.data.dir: Value must be no more than 256",
        ),
        (
            {"log.cleaner.threads": "257", "log.cleaner.dedupe.buffer.size": str(1 << 40)},
            "log.cleaner.threads: Value must be no more than 256",
        ),
        (
            {"offsets.topic.num.partitions": "65", "kbroker.max.partitions": "64"},
            "offsets.topic.num.partitions=65 must be less than or equal to kbroker.max.partitions=64",
        ),
        ({"num.partitions": "20001"}, "num.partitions=20001 must be less than or equal to kbroker.max.part"),
        (
            {"log.cleaner.dedupe.buffer.size": "100"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"kbroker.arena.bytes": "16777216"},
            "kbroker.arena.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            {"connections.max.idle.ms": "100"},
            ("connection.failed.authentication.delay.ms=100 should always be less than connections.max.idle.ms=100 "
            "to prevent failed authentication responses from timing out"),
        ),
        (
            {"group.min.session.timeout.ms": "2000000"},
            "group.max.session.timeout.ms must be greater than or equal to group.min.session.timeout.ms",
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            ("group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms"),
        ),
        (
            {"group.share.heartbeat.interval.ms": "15001"},
            ("group.share.heartbeat.interval.ms must be less than or equal to "
            "group.share.max.heartbeat.interval.ms"),
        ),
        (
            {"group.consumer.max.assignment.interval.ms": "5", "group.consumer.min.assignment.interval.ms": "6"},
            ("group.consumer.max.assignment.interval.ms must be greater than or equal to "
            "group.consumer.min.assignment.interval.ms"),
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": "1",
                "group.consumer.session.timeout.ms": "5000",
            },
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "Disabling the 'classic' protocol is not supported.",
        ),
        ({"listeners": "FOO://:1"}, "No security protocol defined for listener FOO"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "Each listener must have a different port"),
        (
            {"controller.listener.names": "PLAINTEXT"},
            "There must be at least one broker advertised listener.",
        ),
        (
            {"advertised.listeners": "SSL://h:1"},
            ("advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            "Found SSL. The valid options based on the current configuration are PLAINTEXT"),
        ),
        (
            {"inter.broker.listener.name": "SSL"},
            ("inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            "The valid options based on currently configured listeners are PLAINTEXT"),
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "Invalid security protocol `TLS` defined in"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_contradiction_is_reported(static: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig(static)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"), [("listeners", "PLAIN://:9092"), ("listener.security.protocol.map", "PLAINTEXT:TLS")]
)
def test_a_missing_security_protocol_is_followed_by_the_valid_ones(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig({name: text})
    first, second = str(error.value).splitlines()
    assert "security protocol" in first
    assert second.startswith("The security protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. ")
    assert "listener.security.protocol.map" in second


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
def test_a_listener_that_cannot_be_parsed_is_followed_by_the_form(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig({name: "PLAINTEXT:/127.0.0.1:9092"})
    first, second = str(error.value).splitlines()
    assert "Unable to parse PLAINTEXT:/127.0.0.1:9092" in first
    assert second.startswith("A listener is written NAME://HOST:PORT, as PLAINTEXT://127.0.0.1:9092")


def test_all_addresses_may_be_bound_when_nothing_is_advertised() -> None:
    BrokerConfig({"listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_a_single_secure_listener_needs_no_inter_broker_listener() -> None:
    BrokerConfig({"listeners": "SSL://:9093"})


def test_connections_can_be_limited_to_named_addresses() -> None:
    BrokerConfig({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"})


def test_the_largest_counts_of_processes_and_partitions_are_accepted() -> None:
    BrokerConfig({"num.network.threads": "63", "num.io.threads": "128"})
    BrokerConfig({"num.recovery.threads.per.data.dir": "256"})
    BrokerConfig({"log.cleaner.threads": "256", "log.cleaner.dedupe.buffer.size": str(1 << 30)})
    counts = (
        "num.partitions",
        "offsets.topic.num.partitions",
        "share.coordinator.state.topic.num.partitions",
    )
    BrokerConfig({"kbroker.max.partitions": "64", **dict.fromkeys(counts, "64")})


def test_very_many_unknown_settings_are_counted() -> None:
    """A suggestion takes milliseconds: the start would take minutes."""
    static = {f"num.io.thread.{number}": "1" for number in range(MAX_UNKNOWN + 5)}
    lines = list(warnings_of(static, BROKER.get, BROKER))
    assert len(lines) == MAX_UNKNOWN + 1
    assert lines[0].startswith("num.io.thread.0 is not a known setting")
    assert lines[-1] == "5 more keys are not known settings and are ignored"


MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "accepted", "refused", "others"),
    [
        ("queued.max.request.bytes", 104857600, 104857599, {}),
        ("queued.max.request.bytes", 0, 1, {}),
        ("queued.max.request.bytes", -1, 1, {}),
        ("socket.request.max.bytes", 134217728, 134217729, {"kbroker.arena.bytes": "134217728"}),
        ("connections.max.idle.ms", 101, 100, {}),
        ("connections.max.idle.ms", -1, 0, {}),
        ("group.min.session.timeout.ms", 1800000, 1800001, {}),
        ("log.cleaner.max.compaction.lag.ms", 5, 4, {"log.cleaner.min.compaction.lag.ms": "5"}),
        ("log.cleaner.dedupe.buffer.size", MIB + 1, MIB, {}),
        ("log.cleaner.dedupe.buffer.size", 2 * MIB + 2, 2 * MIB + 1, {"log.cleaner.threads": "2"}),
        ("log.roll.ms", 1, 0, {}),
        ("log.roll.jitter.ms", 0, -1, {}),
        ("log.retention.ms", 1, 0, {}),
        ("log.retention.ms", -1, 0, {}),
        ("broker.id", 4, 3, {"node.id": "4"}),
        ("broker.id", -1, 5, {"node.id": "4"}),
        ("transaction.state.log.num.partitions", 64, 65, {"kbroker.max.partitions": "64"}),
        ("share.coordinator.state.topic.num.partitions", 64, 65, {"kbroker.max.partitions": "64"}),
        ("group.consumer.session.timeout.ms", 45000, 44999, {}),
        ("group.consumer.session.timeout.ms", 60000, 60001, {}),
        ("group.share.session.timeout.ms", 5001, 5000, {"group.share.min.session.timeout.ms": "1"}),
        ("group.share.record.lock.duration.ms", 15000, 14999, {}),
    ],
)
def test_a_bound_by_another_setting_is_accepted_and_the_next_number_refused(
    name: str, accepted: int, refused: int, others: dict[str, str]
) -> None:
    BrokerConfig({**others, name: str(accepted)})
    with pytest.raises(ConfigError):
        BrokerConfig({**others, name: str(refused)})


def test_all_log_dirs_or_some_of_them_may_be_cordoned() -> None:
    BrokerConfig({"cordoned.log.dirs": "*", "log.dirs": "/a,/b"})
    BrokerConfig({"cordoned.log.dirs": "/b", "log.dirs": "/a,/b"})


def test_a_broker_may_be_a_controller_too() -> None:
    BrokerConfig({"process.roles": "broker,controller"})


def test_each_contradiction_is_reported() -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig({"log.roll.ms": "0", "log.roll.jitter.ms": "-1", "num.network.threads": "64"})
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("static", "warnings"),
    [
        ({"listeners": "SASL_SSL://:1", "ssl.client.auth": "required"}, 1),
        ({"listeners": "SASL_SSL://:1", "ssl.client.auth": "none"}, 0),
        ({"listeners": "SASL_SSL://:1"}, 0),
        ({"listeners": "SSL://:1", "ssl.client.auth": "required"}, 0),
        ({"listeners": "SASL_PLAINTEXT://:1", "ssl.client.auth": "required"}, 0),
        (
            {
                "listeners": "SASL_SSL://:1",
                "ssl.client.auth": "required",
                "listener.name.sasl_ssl.ssl.client.auth": "requested",
            },
            0,
        ),
    ],
)
def test_client_certificates_of_all_listeners_have_no_effect_with_sasl(
    static: dict[str, str], warnings: int
) -> None:
    found = list(without_effect(BrokerConfig(static)))
    assert len(found) == warnings
    assert all("only listener.name.sasl_ssl.ssl.client.auth counts" in each for each in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zookeeper.connect", "zookeeper.connect was removed from Kafka and is ignored: "),
        (
            "num.io.thread",
            "num.io.thread is not a known setting and is ignored; did you mean num.io.threads?",
        ),
    ],
)
def test_a_setting_without_effect_is_warned_of(name: str, text: str) -> None:
    (warning,) = warnings_of({name: "1"}, BROKER.get, BROKER)
    assert warning.startswith(text)


def test_settings_of_plugins_and_known_ones_make_no_warning() -> None:
    static = {"config.providers.file.class": "x", "rlmm.config.a": "1", "rsm.config.b": "1", "node.id": "1"}
    assert list(warnings_of(static, BROKER.get, BROKER)) == []
