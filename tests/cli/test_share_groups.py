"""`kbroker share-groups` beside a real share consumer, against Apache Kafka and against kbroker."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import ShareConsumer  # type: ignore[attr-defined] # its stubs know no ShareConsumer

from kbroker.cli import share_group_state, share_groups
from kbroker.cli.connection import Connection
from kbroker.cli.failures import broker_error
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from tests.cli.conftest import Shell, Target

WAIT_S = 60


@pytest.fixture
def consumed(cli: Shell, target: Target, topic: str, group: str) -> str:
    """A topic of three partitions with 20 records in the first, of which the group has read all."""
    cli("configs", "alter", "group", group, "--set", "share.auto.offset.reset=earliest")
    cli("produce", topic, "-p", 0, "-q", stdin=b"".join(b"%d\n" % number for number in range(20)))
    consumer = ShareConsumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    got, deadline = 0, time.monotonic() + WAIT_S
    while got < 20:
        assert time.monotonic() < deadline, f"{got} of 20 records"
        got += len([m for m in consumer.poll(0.5) if m.error() is None])
    shown = cli("share-groups", "describe", group, "--members").text
    assert f"{group}: Stable, 1 member\n" in shown
    assert f"{topic}-0" in shown
    assert (
        "with 1 member: "
        in cli("share-groups", "reset-offsets", group, "--all-topics", "--to-latest", code=1).stderr
    )
    consumer.close()
    deadline = time.monotonic() + WAIT_S
    while cli("share-groups", "describe", group, "--json").json[0]["state"] != "Empty":
        assert time.monotonic() < deadline, "the member is still there"
        time.sleep(0.1)
    return topic


def test_share_groups_are_listed_without_others(cli: Shell, topic: str, group: str) -> None:
    cli("consume", topic, "--group", f"{group}-classic", "--idle-timeout", 3, "-q")
    assert f"{group}-classic" in cli("groups", "list").text
    cli("share-groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    rows = cli("share-groups", "list", "--json").json
    assert rows == cli("groups", "list", "--type", "share", "--json").json
    assert [row["state"] for row in rows if row["group"] == group] == ["Empty"]
    assert f"{group}-classic" not in cli("share-groups", "list", f"{group}.*").text
    assert cli("share-groups", "list", group, "--state", "stable").lines == ["GROUP  TYPE  PROTOCOL  STATE"]
    assert "expected one of" in cli("share-groups", "list", "--state", "no", code=2).stderr


def starts(cli: Shell, group: str) -> dict[int, tuple[int | None, int | None]]:
    (described,) = cli("share-groups", "describe", group, "--json").json
    return {row["partition"]: (row["start_offset"], row["lag"]) for row in described["offsets"]}


def test_start_offsets_are_shown_reset_and_deleted(cli: Shell, consumed: str, group: str) -> None:
    reset = ("share-groups", "reset-offsets", group, "--topic", consumed)
    dry = cli(*reset, "--to-earliest", "--json")
    assert "nothing was changed" in dry.stderr
    assert {(row["group"], row["new_offset"]) for row in dry.json} == {(group, 0)}
    assert cli(*reset, "--to-earliest", "--dry-run", "--json").json == dry.json
    both = cli(*reset, "--to-earliest", "--dry-run", "--execute", code=2)
    assert "only one of --dry-run and --execute" in both.stderr
    cli(*reset, "--to-earliest", "--execute")
    assert starts(cli, group)[0] == (0, 20)
    cli("share-groups", "reset-offsets", group, "--all-topics", "--to-latest", "--execute")
    assert starts(cli, group)[0] == (20, 0)
    cli(*reset, "--to-datetime", "2020-01-01", "--execute")
    assert starts(cli, group)[0] == (0, 20)
    assert "START-OFFSET" in cli("share-groups", "describe", group).text
    every = cli("share-groups", "describe", "--all", "--json").json
    assert cli("share-groups", "describe", group, "--json").json[0] in every
    assert "name groups or give --all" in cli("share-groups", "describe", group, "--all", code=2).stderr
    assert "name groups or give --all" in cli("share-groups", "describe", code=2).stderr
    as_another_type = cli("groups", "describe", group, code=1).stderr
    assert "for type share: `kbroker share-groups`" in as_another_type

    assert "no partition 9" in cli(*reset[:-1], f"{consumed}:9", "--to-latest", code=1).stderr
    cli("share-groups", "delete-offsets", group, consumed, "--yes")
    assert starts(cli, group) == {}
    assert consumed in cli("share-groups", "delete-offsets", group, consumed, "--yes", code=1).stderr
    cli("share-groups", "delete", group, "--yes")
    assert "GROUP_ID_NOT_FOUND" in cli("share-groups", "describe", group, code=1).stderr


@pytest.mark.parametrize("error", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_group_that_is_deleted_meanwhile_is_left_out_of_all(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> None:
    def described(_broker: object, name: str, _failures: object) -> dict[str, object]:
        if name == "gone":
            raise broker_error(error.value, None, "share group gone")
        return {"group": name}

    monkeypatch.setattr(share_groups, "_all_groups", lambda _: ["gone", "kept"])
    monkeypatch.setattr(share_groups, "_described", described)
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        assert shell("share-groups", "describe", "--all", "--json").json == [{"group": "kept"}]
    else:
        assert error.name in shell("share-groups", "describe", "--all", "--json", code=1).stderr
    assert error.name in shell("share-groups", "describe", "gone", "--json", code=1).stderr


def test_a_group_of_another_type_is_not_deleted(cli: Shell, topic: str, group: str) -> None:
    cli("produce", topic, "-q", stdin=b"a\n")
    cli("consume", topic, "--group", group, "--from-beginning", "-n", 1, "-q")
    assert group in cli("share-groups", "delete", group, "--yes", code=1).stderr
    assert group in cli("groups", "list").text


def test_a_group_that_is_not_there_yet_is_given_its_start(cli: Shell, topic: str, group: str) -> None:
    cli("produce", topic, "-p", 1, "-q", stdin=b"a\nb\n")
    cli("share-groups", "reset-offsets", group, "--topic", f"{topic}:1", "--to-latest", "--execute")
    assert starts(cli, group) == {1: (2, 0)}


def test_a_partition_without_a_leader_hides_no_other_of_the_group(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        DescribeShareGroupOffsetsResponsePartition(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER.value),
        DescribeShareGroupOffsetsResponsePartition(1, 7, lag=2),
    ]
    topic = DescribeShareGroupOffsetsResponseTopic("t", partitions=parts)
    group = DescribeShareGroupOffsetsResponseGroup("g", [topic])
    answer = DescribeShareGroupOffsetsResponse(groups=[group])
    state = SimpleNamespace(group_state="Empty", group_epoch=1, assignor_name="simple", members=[])
    monkeypatch.setattr(share_group_state, "ask_coordinator", lambda *_: answer)
    monkeypatch.setattr(share_groups, "read_share_group", lambda *_: state)
    done = shell("share-groups", "describe", "g", code=1)
    assert [line.split() for line in done.lines[2:]] == [["t", "0", "-", "-"], ["t", "1", "7", "2"]]
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker: t-0: NOT_LEADER_OR_FOLLOWER")
    (found,) = shell("share-groups", "describe", "g", "--json", code=1).json
    assert [row["lag"] for row in found["offsets"]] == [None, 2]


def test_a_refused_partition_hides_no_other(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        AlterShareGroupOffsetsResponsePartition(number, ErrorCode.TOPIC_AUTHORIZATION_FAILED if number else 0)
        for number in range(3)
    ]
    topic = AlterShareGroupOffsetsResponseTopic("t", partitions=parts)
    answer = AlterShareGroupOffsetsResponse(responses=[topic])
    monkeypatch.setattr(share_group_state, "ask_coordinator", lambda *_: answer)
    monkeypatch.setattr(share_groups, "refuse_members", lambda *_: None)
    monkeypatch.setattr(share_groups, "start_offsets", lambda *_: [])
    monkeypatch.setattr(share_groups, "scoped", lambda *_: [("t", number) for number in range(3)])
    monkeypatch.setattr(share_groups, "latest", lambda *_: {("t", number): 7 for number in range(3)})
    monkeypatch.setattr(Connection, "admin", lambda _: None)
    done = shell("share-groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--execute", code=1)
    assert [line.split() for line in done.lines[1:]] == [["g", "t", "0", "-", "7"]]
    assert all(f"t-{number}: TOPIC_AUTHORIZATION_FAILED" in done.stderr for number in (1, 2))
