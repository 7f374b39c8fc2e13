"""Where logs begin and end, and where a time is."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import offsets, partitions
from kbroker.cli.connection import Connection
from tests.cli.conftest import Shell


@pytest.mark.usefixtures("without_retention")
def test_earliest_latest_times_and_the_largest_timestamp(cli: Shell, topic: str) -> None:
    documents = "".join(json.dumps({"value": "x", "timestamp": 5000 - n * 1000}) + "\n" for n in range(4))
    cli("produce", topic, "-p", 1, "--json", "-q", stdin=documents.encode())
    rows = cli("offsets", topic, "--at", 3500, "--max-timestamp", "--json").json
    assert rows[1] == {
        "topic": topic,
        "partition": 1,
        "earliest": 0,
        "latest": 4,
        "records": 4,
        "at": 0,
        "max_timestamp_offset": 0,
        "max_timestamp": 5000,
    }
    assert (rows[0]["latest"], rows[0]["at"], rows[0]["max_timestamp"]) == (0, None, None)


def test_partitions_can_be_chosen_and_the_table_lines_up(cli: Shell, topic: str) -> None:
    lines = cli("offsets", f"{topic}:0,2").lines
    assert lines[0].split() == ["TOPIC", "PARTITION", "EARLIEST", "LATEST", "RECORDS"]
    assert [line.split()[1] for line in lines[1:]] == ["0", "2"]
    assert "has no partition 3" in cli("offsets", f"{topic}:3", code=1).stderr
    assert "expected TOPIC" in cli("offsets", f"{topic}:x", code=2).stderr
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli("offsets", f"{topic}-not", code=1).stderr


@pytest.mark.parametrize("more", [(), ("--at", "2h", "--max-timestamp")])
def test_a_partition_without_a_leader_hides_no_other(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    leaders = {0: -1, 1: 1}
    parts = {number: SimpleNamespace(leader=leader) for number, leader in leaders.items()}
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions=parts)})
    asked: set[tuple[str, int]] = set()

    def found(*arguments: Any, **_: object) -> dict[tuple[str, int], tuple[int, int]]:
        asked.update(arguments[-1])
        return dict.fromkeys(arguments[-1], (7, 0))

    monkeypatch.setattr(Connection, "admin", lambda _: SimpleNamespace(list_topics=lambda timeout: metadata))
    for module in (partitions, offsets):
        monkeypatch.setattr(module, "list_offsets", found)
    done = shell("offsets", "t", *more, code=1)
    assert [line.split()[:5] for line in done.lines[1:]] == [
        ["t", "0", "-", "-", "-"],
        ["t", "1", "7", "7", "0"],
    ]
    assert done.stderr == "kbroker: t-0: it has no leader\n"
    assert asked == {("t", 1)}
    assert [row["latest"] for row in shell("offsets", "t", *more, "--json", code=1).json] == [None, 7]
    done = shell("offsets", "t:0", *more, code=1)
    assert [line.split()[:3] for line in done.lines[1:]] == [["t", "0", "-"]]
