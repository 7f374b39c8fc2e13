"""kcat as people use it in a shell: lists, groups, the end of a topic, offsets by time, JSON,
transactions' readers. Records of all kinds go both ways in test_matrix.py."""

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.line_clients import Kcat, run

pytestmark = [pytest.mark.compat]

LINES = b"".join(b"key-%d:value %d\n" % (number, number) for number in range(30))


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """Runs kcat to its end."""
    return run([Kcat.path(), "-b", bootstrap, *arguments], stdin)


@pytest.fixture
def written(bootstrap: str, topic: TopicFactory) -> str:
    """A topic of three partitions with 30 records, by kcat."""
    name = topic(partitions=3)
    kcat(bootstrap, "-P", "-t", name, "-K", ":", stdin=LINES)
    return name


def test_without_a_mode_it_writes_what_comes_in_by_a_pipe_and_reads_otherwise(
    bootstrap: str, topic: TopicFactory
) -> None:
    name = topic()
    kcat(bootstrap, "-t", name, stdin=b"first record\n")
    assert kcat(bootstrap, "-C", "-t", name, "-e", "-q") == b"first record\n"


def test_the_list_names_the_broker_and_the_partitions_of_a_topic(bootstrap: str, written: str) -> None:
    found = json.loads(kcat(bootstrap, "-L", "-J", "-t", written))
    assert [one["name"] for one in found["brokers"]] == [bootstrap]
    (described,) = found["topics"]
    assert described["topic"] == written
    leader = found["brokers"][0]["id"]
    assert [(one["partition"], one["leader"]) for one in described["partitions"]] == [
        (number, leader) for number in range(3)
    ]


def test_a_group_reads_every_record_once_and_commits(
    bootstrap: str, written: str, fresh: NameFactory
) -> None:
    group = fresh("group")
    lines = kcat(
        *(bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-c", "30", "-q", "-K", ":", written)
    ).splitlines(keepends=True)
    assert sorted(lines) == sorted(LINES.splitlines(keepends=True))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    kept = consumer.committed([TopicPartition(written, number) for number in range(3)], 30)
    consumer.close()
    assert sum(max(one.offset, 0) for one in kept) == 30


def test_the_last_records_of_a_partition_are_read_from_its_end(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    kcat(bootstrap, "-P", "-t", name, stdin=b"a\nb\nc\n")
    assert kcat(bootstrap, "-C", "-t", name, "-o", "-2", "-e", "-q") == b"b\nc\n"
    assert kcat(bootstrap, "-C", "-t", name, "-o", "1", "-c", "1", "-q") == b"b\n"


def test_records_as_json_carry_place_time_key_and_value(bootstrap: str, written: str) -> None:
    lines = kcat(bootstrap, "-C", "-t", written, "-e", "-q", "-J").splitlines()
    records = [json.loads(line) for line in lines]
    assert sorted((one["key"], one["payload"]) for one in records) == sorted(
        (f"key-{number}", f"value {number}") for number in range(30)
    )
    places = {(one["partition"], one["offset"]) for one in records}
    assert len(places) == 30
    assert all(one["topic"] == written and one["tstype"] == "create" and one["ts"] > 0 for one in records)


def test_offsets_are_found_by_time(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    kcat(bootstrap, "-P", "-t", name, stdin=b"a\nb\n")
    times = [
        json.loads(line)["ts"] for line in kcat(bootstrap, "-C", "-t", name, "-e", "-q", "-J").splitlines()
    ]
    assert kcat(bootstrap, "-Q", "-t", f"{name}:0:{times[0]}") == f"{name} [0] offset 0\n".encode()
    after = kcat(bootstrap, "-Q", "-t", f"{name}:0:{times[1] + 60_000}")
    assert after == f"{name} [0] offset -1\n".encode()


def test_a_topic_that_is_missing_ends_it_with_the_reason(bootstrap: str, fresh: NameFactory) -> None:
    arguments = ["-b", bootstrap, "-C", "-t", fresh("missing"), "-e", "-X", "allow.auto.create.topics=false"]
    with pytest.raises(AssertionError, match=r"(?i)unknown topic"):
        run([Kcat.path(), *arguments])
