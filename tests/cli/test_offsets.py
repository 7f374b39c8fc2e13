"""Where logs begin and end, and where a time is."""

import json

import pytest

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
