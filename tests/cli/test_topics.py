"""Topics are created, listed, described, grown, reconfigured and deleted; wrong requests say
why."""

import re
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kbroker.cli import topics
from kbroker.cli.failures import broker_error
from kbroker.cli.topic_description import describe_topic
from kbroker.cli.topics import _outcomes
from kbroker.protocol.errors import ErrorCode
from tests.cli.conftest import Shell, Target
from tests.peer.eventually import eventually


def test_a_created_topic_has_the_requested_partitions_and_settings(cli: Shell, group: str) -> None:
    name = f"made-{group}"
    cli("topics", "create", name, "-p", 4, "-c", "retention.ms=5000", "-c", "cleanup.policy=compact")
    described = cli("topics", "describe", name, "--json").json[0]
    assert described["topic"] == name
    assert described["configs"] == {"cleanup.policy": "compact", "retention.ms": "5000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3]
    assert all(p["leader"] in p["replicas"] and p["isr"] == p["replicas"] for p in described["partitions"])
    assert re.fullmatch(r"[\w-]{22}", described["id"])
    text = cli("topics", "describe", name).text
    assert described["id"] in text
    assert "cleanup.policy=compact retention.ms=5000" in text


def test_creating_twice_is_an_error_unless_it_may_exist(cli: Shell, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in cli("topics", "create", topic, code=1).stderr
    answer = cli("topics", "create", topic, "--if-not-exists", "--json")
    assert answer.json == [{"topic": topic, "created": False}]


def test_validate_only_creates_nothing(cli: Shell, group: str) -> None:
    cli("topics", "create", f"never-{group}", "--validate-only")
    checked = cli("topics", "create", f"never-{group}", "--validate-only", "--json").json
    assert checked == [{"topic": f"never-{group}", "would_be_created": True}]
    assert cli("topics", "list", f"never-{group}", "--json").json == []


def test_a_bad_setting_is_the_brokers_error_and_a_malformed_one_a_usage_error(cli: Shell, group: str) -> None:
    name = f"bad-{group}"
    assert "INVALID_CONFIG" in cli("topics", "create", name, "-c", "retention.ms=soon", code=1).stderr
    assert "expected key=value" in cli("topics", "create", name, "-c", "retention.ms", code=2).stderr
    assert "INVALID_TOPIC_EXCEPTION" in cli("topics", "create", "a b", code=1).stderr


def test_the_list_can_be_narrowed_by_a_pattern(cli: Shell, topic: str) -> None:
    assert cli("topics", "list", topic, "--json").json == [
        {"topic": topic, "partitions": 3, "replication_factor": 1}
    ]
    lines = cli("topics", "list", f"{topic[:-1]}.").lines
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert lines[1].split() == [topic, "3", "1"]
    assert "not a regular expression" in cli("topics", "list", "(", code=2).stderr


def test_partitions_only_grow(cli: Shell, topic: str) -> None:
    cli("topics", "alter", topic, "--partitions", 5)
    eventually(lambda: cli("topics", "list", topic, "--json").json[0]["partitions"] == 5)
    for number in (5, 4):
        assert "INVALID_PARTITIONS" in cli("topics", "alter", topic, "--partitions", number, code=1).stderr


def test_a_number_of_partitions_that_is_refused_changes_no_setting(cli: Shell, topic: str) -> None:
    expected = ("--partitions", 2, "-c", "retention.ms=1000")
    assert "INVALID_PARTITIONS" in cli("topics", "alter", topic, *expected, code=1).stderr
    assert cli("topics", "describe", topic, "--json").json[0]["configs"] == {}


def test_one_topic_that_is_refused_hides_no_other(cli: Shell, group: str) -> None:
    one, another = f"one-{group}", f"another-{group}"
    cli("topics", "create", one)
    done = cli("topics", "create", one, another, code=1).stderr.splitlines()
    assert done[0] == f"{another}: created"
    assert f"kbroker: {one}: TOPIC_ALREADY_EXISTS" in done[1]
    done = cli("topics", "delete", f"no-{group}", one, another, one, "--yes", code=1).stderr.splitlines()
    assert sorted(done[:2]) == sorted((f"{one}: deleted", f"{another}: deleted"))
    assert f"kbroker: no-{group}: UNKNOWN_TOPIC_OR_PARTITION" in done[2]


def test_fewer_replicas_than_requested_are_reported(cli: Shell, target: Target, group: str) -> None:
    if target.name != "kbroker":
        pytest.skip("Apache Kafka refuses them")
    assert "1 replica, not 3" in cli("topics", "create", f"three-{group}", "-r", 3).stderr
    assert "replica" not in cli("topics", "create", f"one-{group}", "-r", 1).stderr


def test_settings_are_set_and_taken_back(cli: Shell, topic: str) -> None:
    cli("topics", "alter", topic, "-c", "segment.bytes=2000000", "-c", "retention.ms=1000")
    cli("topics", "alter", topic, "--delete-config", "retention.ms")
    assert cli("topics", "describe", topic, "--json").json[0]["configs"] == {"segment.bytes": "2000000"}
    assert "nothing to alter" in cli("topics", "alter", topic, code=2).stderr


def test_a_deleted_topic_is_gone(cli: Shell, topic: str) -> None:
    cli("topics", "delete", topic, "--yes")
    assert cli("topics", "list", topic, "--json").json == []
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli("topics", "delete", topic, "--yes", code=1).stderr
    cli("topics", "delete", topic, "--yes", "--if-exists")


def test_describing_a_topic_that_is_not_there_fails(cli: Shell, group: str) -> None:
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli("topics", "describe", group, code=1).stderr


def test_a_topic_that_is_deleted_meanwhile_is_left_out_of_all(
    cli: Shell, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = f"gone-{group}"
    cli("topics", "create", gone)

    def described(admin: Any, name: str, timeout_s: float) -> dict[str, Any]:
        if name == gone:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value, None, name)
        return describe_topic(admin, name, timeout_s)

    monkeypatch.setattr(topics, "describe_topic", described)
    names = {each["topic"] for each in cli("topics", "describe", "--json").json}
    assert topic in names
    assert gone not in names
    cli("topics", "describe", gone, code=1)


def test_deleted_records_move_the_start_of_the_log(cli: Shell, topic: str) -> None:
    cli("produce", topic, "-p", 0, stdin=b"a\nb\nc\n")
    cli("produce", topic, "-p", 1, stdin=b"d\n")
    rows = cli("topics", "delete-records", f"{topic}:0:2", f"{topic}:1:-1", "--yes", "--json").json
    assert {(row["partition"], row["log_start_offset"]) for row in rows} == {(0, 2), (1, 1)}
    assert cli("consume", topic, "--from-beginning", "-e", "-q").lines == ["c"]
    assert "OFFSET_OUT_OF_RANGE" in cli("topics", "delete-records", f"{topic}:0:99", "--yes", code=1).stderr
    assert "expected TOPIC:PARTITION:OFFSET" in cli("topics", "delete-records", topic, code=2).stderr


def test_a_partition_that_is_refused_hides_no_other(cli: Shell, topic: str) -> None:
    cli("produce", topic, "-p", 0, stdin=b"a\nb\nc\n")
    delete = ("topics", "delete-records", f"{topic}:1:99", f"{topic}:0:2", "--yes")
    done = cli(*delete, "--json", code=1)
    assert done.json == [{"topic": topic, "partition": 0, "log_start_offset": 2}]
    assert f"kbroker: {topic}-1: OFFSET_OUT_OF_RANGE" in done.stderr
    assert cli(*delete, code=1).lines[1].split() == [topic, "0", "2"]


def test_records_are_deleted_by_their_time(cli: Shell, topic: str) -> None:
    for partition in (0, 1):
        lines = "".join(f'{{"value": "t{n}", "timestamp": {1_000_000 + n * 1000}}}\n' for n in range(4))
        cli("produce", topic, "-p", partition, "--json", "-q", stdin=lines.encode())
    delete = ("topics", "delete-records", "--yes", "--json")
    rows = cli(*delete, f"{topic}:0", "--before", 1_001_500).json
    assert rows == [{"topic": topic, "partition": 0, "log_start_offset": 2}]
    assert cli("consume", topic, "-p", 0, "-e", "-q").lines == ["t2", "t3"]
    assert cli("consume", topic, "-p", 1, "--exact-count", "-q").lines == ["4"]
    rows = cli(*delete, topic, "--before", "now").json
    assert {row["partition"]: row["log_start_offset"] for row in rows} == {0: 4, 1: 4, 2: 0}


def test_records_of_a_compacted_topic_are_kept_and_the_reason_is_named(cli: Shell, group: str) -> None:
    topic = f"compacted-{group}"
    cli("topics", "create", topic, "-c", "cleanup.policy=compact")
    done = cli("topics", "delete-records", f"{topic}:0:0", "--yes", code=1)
    assert "POLICY_VIOLATION" in done.stderr
    assert done.stderr.endswith(": its cleanup.policy has no delete\n")


def test_a_time_needs_topics_and_no_offsets(cli: Shell, topic: str) -> None:
    delete = ("topics", "delete-records")
    assert "expected TOPIC or" in cli(*delete, f"{topic}:0:5", "--before", "1d", "--yes", code=2).stderr
    assert "not a point in time" in cli(*delete, topic, "--before", "soon", "--yes", code=2).stderr
    assert "Give --yes" in cli(*delete, topic, "--before", "1d", code=2).stderr
    assert "UNKNOWN_TOPIC" in cli(*delete, f"not-{topic}", "--before", "1d", "--yes", code=1).stderr


def test_only_its_error_code_makes_a_refusal_acceptable() -> None:
    """Names of topics and texts of the broker may have the name of any error in them."""
    accepted, refused = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answers: dict[str, Any] = {accepted.name: Future(), "gone": Future()}
    answers[accepted.name].set_exception(KafkaException(KafkaError(refused.value)))
    answers["gone"].set_exception(KafkaException(KafkaError(accepted.value)))
    changed, failures = _outcomes(answers, accepted)
    assert changed == {"gone": False}
    assert [failure.error for failure in failures] == [refused]
