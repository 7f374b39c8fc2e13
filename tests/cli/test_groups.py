"""Groups are listed and described with lag in records and seconds; offsets, members and groups are
removed."""

import json
import time
from types import SimpleNamespace

import pytest

from kbroker.cli.groups import _report
from tests.cli.conftest import Shell, Target, offered
from tests.cli.member import member


@pytest.fixture
def idle(cli: Shell, topic: str, group: str) -> str:
    """A group without members that read two of five records of partition 0, all written an hour
    ago."""
    written_ms = int(time.time() * 1000) - 3_600_000
    documents = "".join(json.dumps({"value": f"v{n}", "timestamp": written_ms}) + "\n" for n in range(5))
    cli("produce", topic, "-p", 0, "--json", "-q", stdin=documents.encode())
    cli("consume", topic, "-g", group, "--from-beginning", "-n", 2, "-q")
    return group


def test_an_idle_groups_lag_is_shown_in_records_and_in_seconds(cli: Shell, topic: str, idle: str) -> None:
    (found,) = cli("groups", "describe", idle, "--json").json
    assert (found["state"], found["members"], found["lag"]) == ("Empty", [], 3)
    (row,) = [row for row in found["partitions"] if row["partition"] == 0]
    assert (row["topic"], row["current_offset"], row["log_end_offset"], row["lag"]) == (topic, 2, 5, 3)
    assert 3_599 < row["lag_seconds"] < 3_800
    assert found["lag_seconds"] == row["lag_seconds"]
    lines = cli("groups", "describe", idle).lines
    assert f"{idle}  state=Empty" in lines[0]
    assert lines[1].split()[:6] == [
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "LAG-SECONDS",
    ]
    (quick,) = cli("groups", "describe", idle, "--no-lag-seconds", "--json").json
    assert quick["lag_seconds"] is None


def test_a_group_that_read_everything_has_no_lag(cli: Shell, topic: str, idle: str) -> None:
    cli("consume", topic, "-g", idle, "-e", "-q")
    (found,) = cli("groups", "describe", idle, "--json").json
    assert (found["lag"], found["lag_seconds"]) == (0, 0.0)


def test_partitions_without_a_commit_count_from_the_start_of_their_log(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    cli("produce", topic, "-p", 1, "-q", stdin=b"a\nb\nc\nd\n")
    cli("topics", "delete-records", f"{topic}:1:1", "--yes")
    with member(target, topic, group):
        (found,) = cli("groups", "describe", group, "--json").json
    rows = {row["partition"]: (row["current_offset"], row["lag"]) for row in found["partitions"]}
    assert (rows[1], found["lag"]) == ((None, 3), 3)


def test_members_are_shown_with_their_partitions(cli: Shell, topic: str, group: str, target: Target) -> None:
    with member(target, topic, group, group_instance_id="one") as consumer:
        (found,) = cli("groups", "describe", group, "--json").json
        (only,) = found["members"]
        assert found["state"] == "Stable"
        assert found["assignor"] == "range"
        assert only["member_id"] == consumer.memberid()
        assert (only["client_id"], only["instance_id"], only["host"]) == ("the-member", "one", "127.0.0.1")
        assert only["partitions"] == [{"topic": topic, "partition": n} for n in range(3)]
        assert [row["client_id"] for row in found["partitions"]] == ["the-member"] * 3
        text = cli("groups", "describe", group, "--members").text
        assert "MEMBER-ID" in text
        assert "INSTANCE-ID  CLIENT-ID   HOST" in text
        assert f"{topic}:0 {topic}:1 {topic}:2" in text


def test_groups_are_listed_by_state_and_type(cli: Shell, idle: str) -> None:
    (row,) = cli("groups", "list", idle, "--json").json
    assert row == {"group": idle, "type": "classic", "protocol": "consumer", "state": "Empty"}
    assert cli("groups", "list", idle, "--state", "empty", "--type", "classic", "--json").json == [row]
    assert cli("groups", "list", idle, "--state", "Stable", "--json").json == []
    assert idle in cli("groups", "describe", "--all").text


def test_a_group_that_is_not_there_is_an_error(cli: Shell, group: str) -> None:
    assert "GROUP_ID_NOT_FOUND" in cli("groups", "describe", group, code=1).stderr
    assert "name groups or give --all" in cli("groups", "describe", code=2).stderr


def test_only_groups_without_members_are_deleted(cli: Shell, topic: str, group: str, target: Target) -> None:
    offered(cli, "DeleteGroups")
    with member(target, topic, group):
        assert "NON_EMPTY_GROUP" in cli("groups", "delete", group, "--yes", code=1).stderr
    cli("groups", "delete", group, "--yes")
    assert cli("groups", "list", group, "--json").json == []
    assert "GROUP_ID_NOT_FOUND" in cli("groups", "delete", group, "--yes", code=1).stderr


def test_offsets_of_chosen_partitions_are_deleted(cli: Shell, topic: str, idle: str, target: Target) -> None:
    offered(cli, "OffsetDelete")
    cli("groups", "reset-offsets", idle, "--topic", topic, "--to-earliest", "--execute")
    cli("groups", "delete-offsets", idle, f"{topic}:1-2", "--yes")
    (found,) = cli("groups", "describe", idle, "--json").json
    assert [row["current_offset"] for row in found["partitions"]] == [0, None, None]
    missing = cli("groups", "delete-offsets", idle, f"{topic}:1", "--yes", code=1)
    assert "no committed offset" in missing.stderr
    with member(target, topic, idle):
        refused = cli("groups", "delete-offsets", idle, topic, "--yes", code=1)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in refused.stderr


def test_members_are_removed_by_id_by_instance_and_all(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    with member(target, topic, group) as consumer:
        removed = cli("groups", "remove-members", group, "--member", consumer.memberid(), "--yes")
        assert "removed" in removed.stderr
        assert cli("groups", "describe", group, "--json").json[0]["members"] == []
        unknown = cli("groups", "remove-members", group, "--member", "nobody", "--yes", code=1)
        assert "UNKNOWN_MEMBER_ID" in unknown.stderr
    assert "give --member" in cli("groups", "remove-members", group, code=2).stderr
    static = f"{group}-static"
    with member(target, topic, static, group_instance_id="one"):
        cli("groups", "remove-members", static, "--instance", "one", "--yes")
        assert cli("groups", "describe", static, "--json").json[0]["members"] == []
    with member(target, topic, f"{group}-all"):
        cli("groups", "remove-members", f"{group}-all", "--all", "--yes")
        assert "has no members" in cli("groups", "remove-members", f"{group}-all", "--all", "--yes").stderr


def test_an_id_of_a_removed_member_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _report({"m\x1b[2J\nx": SimpleNamespace(errno=0)}, "removed")
    assert capsys.readouterr().err == r"m\x1b[2J\nx: removed" + "\n"
