"""A reader ends when it must, and needs no more rights than reading takes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import consuming
from kbroker.cli.consuming import MANY, Bounds, Reader, Start
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.program import program

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_ann="a" user_root="r";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


@pytest.mark.compat
def test_a_reader_that_must_end_does_not_wait_for_a_dead_broker(
    shell: Shell, broker_factory: BrokerFactory
) -> None:
    """The client library alone would wait forever."""
    node = broker_factory({})
    shell("topics", "create", "many", "-p", 1, "-b", node.bootstrap)
    lines = b"".join(
        b"%d %s\n" % (number, b"x" * 8000) for number in range(16_000)
    )  # more than a client prefetches
    shell("produce", "many", "-q", "-b", node.bootstrap, stdin=lines)
    consume = [sys.executable, "-m", "kbroker", "consume", "many", "-e", "-q", "--timeout", "10"]
    with program([*consume, "-b", node.bootstrap], stdout=PIPE, stderr=PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"0 ")
        node.kill9()
        output, errors = running.communicate(timeout=120)
    assert running.returncode == ExitCode.UNREACHABLE, errors
    assert len(output) < len(lines)
    (line,) = errors.splitlines()
    assert line.startswith(b"kbroker: ")


def test_a_slow_output_is_no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    taken: Iterator[list[str] | float] = iter([["a"], 0.1, ["b"], 0.1, 6.0])  # records, or seconds without

    def take(_left: int | None) -> list[str]:
        nonlocal now_s
        found = next(taken)
        if isinstance(found, list):
            return found
        now_s += found
        return []

    monkeypatch.setattr(consuming, "time", SimpleNamespace(monotonic=lambda: now_s))
    reader: Any = Reader.__new__(Reader)
    reader.bounds, reader._stopping, reader._take = Bounds(idle_timeout_s=5), False, take
    reader._assigned = True
    read = []
    for records in reader:
        read += records
        now_s += 100  # the pipe is full
    assert read == ["a", "b"]


@pytest.mark.compat
def test_reading_without_a_group_needs_no_right_of_a_group(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    bootstrap = broker_factory(SETTINGS).bootstrap

    def as_user(user: str) -> tuple[str, Path]:
        file = tmp_path / f"{user}.properties"
        file.write_text(
            f"bootstrap.servers={bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={user}\nsasl.password={user[0]}\n"
        )
        return "--command-config", file

    shell("topics", "create", "orders", *as_user("root"))
    shell("acls", "add", "--principal", "User:ann", "-o", "read", "--topic", "orders", *as_user("root"))
    # No end is given, so that the coordinator's refusal comes while records are awaited.
    read = ("consume", "orders", "--from-beginning", "--quiet", *as_user("ann"))
    assert shell(*read, "--idle-timeout", "2").stdout == b""
    refused = shell(*read, "--group", "billing", code=1)
    assert "GROUP_AUTHORIZATION_FAILED" in refused.stderr


class Message:
    """A record, as the client library returns it."""

    def __init__(self, offset: int, timestamp: tuple[int, int] = (1, 50), partition: int = 0) -> None:
        self.given = offset, timestamp, partition

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.given[2]

    def offset(self) -> int:
        return self.given[0]

    def timestamp(self) -> tuple[int, int]:
        return self.given[1]

    def error(self) -> None:
        return None

    key = value = headers = error


class Consumer:
    """The client library's consumer. consumed: the numbers of records that were requested."""

    def __init__(self) -> None:
        self.assigned: list[tuple[int, int]] = []
        self.subscribed: list[str] = []
        self.stored: list[int] = []
        self.consumed: list[int] = []
        self.messages: list[Message] = []

    def assign(self, partitions: Any) -> None:
        self.assigned = [(each.partition, each.offset) for each in partitions]

    def subscribe(self, topics: list[str], **_: object) -> None:
        self.subscribed = topics

    def store_offsets(self, message: Message) -> None:
        self.stored.append(message.offset())

    def poll(self, _seconds: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, count: int, _seconds: float) -> list[Message]:
        self.consumed.append(count)
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken


class Scene:
    """A topic of two partitions, which hold 2 to 10 and 0 to 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.consumer = Consumer()
        self.settings: dict[str, Any] = {}
        for name, offsets in (("earliest", (2, 0)), ("latest", (10, 0)), ("at_time", (6, 0))):
            found = {("t", number): offset for number, offset in enumerate(offsets)}
            monkeypatch.setattr(
                consuming, name, lambda *given, found=found: {each: found[each] for each in given[2]}
            )
        monkeypatch.setattr(consuming, "partitions_of", lambda *_: [("t", 0), ("t", 1)])

    def made(self, settings: dict[str, Any]) -> Consumer:
        self.settings = settings
        return self.consumer

    def reader(
        self,
        start: Start | None = None,
        bounds: Bounds | None = None,
        partitions: tuple[int, ...] = (0, 1),
        group: str | None = None,
    ) -> Reader:
        broker: Any = SimpleNamespace(consumer=self.made, admin=lambda: None, timeout_s=5, last_error="")
        return Reader(broker, ["t"], partitions, group, start or Start(), bounds or Bounds(), {"x": 1})


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Start(), 10),
        (Start(-3), 7),
        (Start(-8), 2),
        (Start(-9), 2),
        (Start(0, "earliest"), 2),
        (Start(2, "offset"), 2),
        (Start(10, "offset"), 10),
        (Start(timestamp_ms=99), 6),
    ],
)
def test_a_start_is_an_offset_of_each_partition(scene: Scene, start: Start, first: int) -> None:
    reader = scene.reader(start, partitions=(0,))
    assert scene.consumer.assigned == [(0, first)]
    assert (reader.first, reader.log_starts) == ({("t", 0): first}, {("t", 0): 2})


@pytest.mark.parametrize("offset", [1, 11])
def test_an_offset_that_a_partition_does_not_hold_is_refused(scene: Scene, offset: int) -> None:
    with pytest.raises(CommandFailed, match=f"t-0 has no offset {offset}: it holds 2 to 10"):
        scene.reader(Start(offset, "offset"), partitions=(0,))


def test_a_missing_partition_is_refused(scene: Scene) -> None:
    with pytest.raises(CommandFailed, match="there is no partition t-2, t-3"):
        scene.reader(partitions=(3, 0, 2))
    assert scene.reader(partitions=()).first.keys() == {("t", 0), ("t", 1)}


@pytest.mark.parametrize(
    ("group", "start", "reset", "commit"),
    [
        (None, Start(), "earliest", False),
        ("g", Start(), "latest", True),
        ("g", Start(0, "earliest"), "earliest", True),
    ],
)
def test_a_reader_commits_only_in_a_group(
    scene: Scene, group: str | None, start: Start, reset: str, commit: bool
) -> None:
    scene.reader(start, group=group)
    assert scene.settings == {
        "enable.auto.offset.store": False,
        "auto.offset.reset": reset,
        "enable.auto.commit": commit,
        "group.id": group or "kbroker-consume",
        "x": 1,
    }
    assert scene.consumer.subscribed == (["t"] if group else [])


def test_a_reader_waits_for_new_records_unless_something_else_is_requested(scene: Scene) -> None:
    assert scene.reader().waits
    assert scene.reader(bounds=Bounds(max_messages=1)).waits
    for other in (
        scene.reader(Start(-1)),
        scene.reader(group="g"),
        scene.reader(bounds=Bounds(until_end=True)),
        scene.reader(bounds=Bounds(until_ms=0)),
    ):
        assert not other.waits


def test_a_reader_ends_with_the_last_record_below_the_end(scene: Scene) -> None:
    reader = scene.reader(Start(0, "earliest"), Bounds(until_end=True))
    scene.consumer.messages = [Message(7), Message(8), Message(9), Message(10), Message(11)]
    assert [each.offset for records in reader for each in records] == [7, 8, 9]
    assert list(scene.reader(bounds=Bounds(until_end=True))) == [], "nothing is below the end"


def test_a_reader_ends_before_the_first_record_of_a_time(scene: Scene) -> None:
    reader = scene.reader(Start(0, "earliest"), Bounds(until_ms=50), partitions=(0,))
    times = (49, 50, 10)
    scene.consumer.messages = [Message(2 + number, (1, time)) for number, time in enumerate(times)]
    assert [each.offset for records in reader for each in records] == [2]


def test_a_record_without_a_time_has_none(scene: Scene) -> None:
    reader = scene.reader()
    scene.consumer.messages = [Message(10, (0, 77)), Message(11, (2, 77))]
    assert [each.timestamp for each in reader._take(None)] == [-1, 77]


@pytest.mark.parametrize(("left", "more"), [(None, MANY), (2, 1), (MANY, MANY - 1), (MANY + 5, MANY - 1)])
def test_no_more_records_are_taken_than_are_left(scene: Scene, left: int | None, more: int) -> None:
    reader = scene.reader()
    scene.consumer.messages = [Message(10)]
    assert len(reader._take(left)) == 1
    assert scene.consumer.consumed == [more]


def test_the_last_record_that_is_left_is_taken_alone(scene: Scene) -> None:
    reader = scene.reader(bounds=Bounds(max_messages=1))
    scene.consumer.messages = [Message(10), Message(11)]
    assert [each.offset for records in reader for each in records] == [10]
    assert scene.consumer.consumed == []


def test_a_reader_stops_after_a_number_of_records(scene: Scene) -> None:
    reader = scene.reader(bounds=Bounds(max_messages=3))
    scene.consumer.messages = [Message(10 + number) for number in range(5)]
    assert [each.offset for records in reader for each in records] == [10, 11, 12]


def test_a_reader_that_is_stopped_returns_nothing_more(scene: Scene) -> None:
    reader = scene.reader()
    scene.consumer.messages = [Message(10)]
    assert not reader.stopped
    reader.stop()
    assert reader.stopped
    assert list(reader) == []


def test_only_printed_records_of_a_group_are_stored(scene: Scene) -> None:
    for group, stored in (("g", [11]), (None, [])):
        reader = scene.reader(group=group)
        scene.consumer.messages, scene.consumer.stored = [Message(10), Message(11)], []
        reader._take(None)
        assert scene.consumer.stored == []
        reader.printed()
        reader.printed()
        assert scene.consumer.stored == stored


def test_an_idle_reader_ends_after_its_time_and_not_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = iter((0.0, 5.0, 5.5))
    monkeypatch.setattr(consuming, "time", SimpleNamespace(monotonic=lambda: next(passed)))
    taken: list[int | None] = []

    def take(left: int | None) -> list[Any]:
        taken.append(left)
        return []

    reader: Any = Reader.__new__(Reader)
    reader.bounds, reader._stopping, reader._take = Bounds(idle_timeout_s=5), False, take
    reader._assigned = True
    assert list(reader) == []
    assert taken == [None, None]


@pytest.mark.parametrize(("joins_at_s", "ends_at_s"), [(4.0, 7.0), (100.0, 16.0)])
def test_idle_time_begins_when_the_group_has_joined(
    joins_at_s: float, ends_at_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    reader: Any = Reader.__new__(Reader)

    def take(_left: int | None) -> list[str]:
        nonlocal now_s
        now_s += 1.0
        reader._assigned = now_s >= joins_at_s
        return []

    monkeypatch.setattr(consuming, "time", SimpleNamespace(monotonic=lambda: now_s))
    reader.bounds, reader._stopping, reader._take = Bounds(idle_timeout_s=2), False, take
    reader.broker, reader._assigned = SimpleNamespace(timeout_s=15.0), False
    assert list(reader) == []
    assert now_s == ends_at_s
