"""Records of share groups on stdout: acknowledged when they are printed, against Apache Kafka and
against kbroker."""

from typing import Any

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no AcknowledgeType
    AcknowledgeType,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from kbroker.cli import share_consuming
from kbroker.cli.consuming import Bounds
from kbroker.cli.failures import CommandFailed
from kbroker.cli.share_consuming import ShareReader
from kbroker.protocol.errors import ErrorCode
from tests.cli.conftest import Shell
from tests.peer.eventually import eventually

COUNT = 20


@pytest.fixture
def filled(cli: Shell, topic: str, group: str) -> str:
    """A topic with 20 records in its first partition; the group starts at the earliest."""
    cli("configs", "alter", "group", group, "--set", "share.auto.offset.reset=earliest")
    records = "".join(f"k{number}:v{number}\n" for number in range(COUNT))
    cli("produce", topic, "-p", 0, "-K", ":", "-q", stdin=records.encode())
    return topic


def lag(cli: Shell, group: str) -> int:
    (described,) = cli("share-groups", "describe", group, "--json").json
    return sum(row["lag"] or 0 for row in described["offsets"])


def test_printed_records_are_finished_and_others_are_left(cli: Shell, filled: str, group: str) -> None:
    consume = ("share-groups", "consume", group, filled)
    first = cli(*consume, "-n", 12, "--print-key")
    assert first.lines == [f"k{number}\tv{number}" for number in range(12)]
    assert first.stderr.startswith("12 records, ")
    rest = cli(*consume, "-n", 8, "-q", "--json")
    assert len(rest.lines) == 8
    assert '"value":"v12"' in rest.lines[0].replace(" ", "")
    assert cli(*consume, "--idle-timeout", 2, "-q").stdout == b""
    eventually(lambda: lag(cli, group) == 0)


def test_released_records_come_again_and_rejected_ones_do_not(cli: Shell, filled: str, group: str) -> None:
    consume = ("share-groups", "consume", group, filled, "-q", "-n")
    every = [f"v{number}" for number in range(COUNT)]
    assert cli(*consume, 5, "--acknowledge", "release").lines == every[:5]
    rejected = cli(*consume, 5, "--acknowledge", "reject").lines
    assert sorted(rejected + cli(*consume, COUNT - 5).lines) == sorted(every)
    eventually(lambda: lag(cli, group) == 0)


def test_a_topic_that_does_not_exist_is_no_wait(cli: Shell, group: str) -> None:
    assert "no-such-topic" in cli("share-groups", "consume", group, "no-such-topic", code=1).stderr


class Message:
    """A record, as the client library returns it."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self.number, self.failure = offset, error

    def error(self) -> KafkaError | None:
        return self.failure

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return (0, -1)

    def key(self) -> None:
        return None

    value = headers = key


class Consumer:
    """A share consumer that returns one list. commits: the answer to its acknowledgements."""

    def __init__(self, *messages: Message) -> None:
        self.messages = [*messages]
        self.commits: dict[TopicPartition, KafkaException | None] = {}
        self.acknowledged: list[tuple[int, AcknowledgeType]] = []

    def poll(self, _timeout: float) -> list[Message]:
        taken, self.messages = self.messages, []
        return taken

    def acknowledge(self, message: Message, kind: AcknowledgeType) -> None:
        self.acknowledged.append((message.number, kind))

    def commit_sync(self, _timeout: float) -> dict[TopicPartition, KafkaException | None]:
        return self.commits


def reader_of(consumer: Consumer, bounds: Bounds) -> Any:
    reader: Any = ShareReader.__new__(ShareReader)
    reader.consumer, reader.bounds, reader.group, reader.stopped = consumer, bounds, "g", False
    reader._kind, reader._release, reader._taken = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, []
    reader.broker = type("Broker", (), {"last_error": "", "timeout_s": 1.0})
    return reader


def test_records_beyond_the_bound_are_released() -> None:
    consumer = Consumer(*map(Message, range(4)))
    reader = reader_of(consumer, Bounds(max_messages=3))
    for records in reader:
        assert [record.offset for record in records] == [0, 1, 2]
        reader.printed()
    assert consumer.acknowledged == [
        (3, AcknowledgeType.RELEASE), *((number, AcknowledgeType.ACCEPT) for number in range(3)),
    ]  # fmt: skip


def test_a_refused_acknowledgement_is_an_error() -> None:
    consumer = Consumer(Message(7))
    consumer.commits = {
        TopicPartition("t", 0): KafkaException(KafkaError(ErrorCode.INVALID_RECORD_STATE.value)),
    }
    reader = reader_of(consumer, Bounds())
    assert len(next(iter(reader))) == 1
    with pytest.raises(CommandFailed, match=r"t-0: acknowledgement: .*INVALID_RECORD_STATE"):
        reader.printed()


def test_an_error_of_the_group_ends_the_reader_unless_it_passes() -> None:
    passing = Consumer(Message(0, KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, retriable=True)))
    assert list(reader_of(passing, Bounds(idle_timeout_s=0))) == []
    refused = Consumer(Message(0, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    with pytest.raises(CommandFailed, match=r"share group g: .*GROUP_AUTHORIZATION_FAILED"):
        list(reader_of(refused, Bounds()))


def test_the_kinds_are_those_of_the_client() -> None:
    assert {kind.name for kind in share_consuming.Acknowledgement} <= {kind.name for kind in AcknowledgeType}
