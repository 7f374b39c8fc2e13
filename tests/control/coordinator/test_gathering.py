"""Operations of one turn are one batch; each gets its own result."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from greenlet import getcurrent

from kbroker.control.coordinator import gathering, outcome_writer
from kbroker.control.coordinator.gathering import TOGETHER, Gathering
from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import NewRecord, build_batch, read_all
from kbroker.protocol.slices import is_sliced
from tests.control.coordinator.runtime_scene import Log, Machine, answer_of, puts, run
from tests.control.fakes import World


def answers(requested: list[Deferred]) -> list[object]:
    return [each.value for each in requested]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def check(folder: Path, test: Callable[[Runtime, Machine, Log], Awaitable[None]]) -> None:
    async def body(runtime: Runtime, machine: Machine, log: Log, _: World) -> None:
        await test(runtime, machine, log)

    run(folder, body)


def test_the_records_of_one_turn_are_one_batch_in_order(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        requested = [
            runtime.ask_concurrently("g", puts(b"k", b"%d" % number, number)) for number in range(10)
        ]
        assert not log.batches
        assert not any(each.done for each in requested)
        await settle()
        ((_, batch),) = log.batches
        assert [record.value for record in read_all(batch)] == [b"%d" % number for number in range(10)]
        assert answers(requested) == list(range(10))
        assert machine.state == {b"k": b"9"}

    check(tmp_path, test)


def test_no_request_is_answered_before_the_records_are_in_the_log(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        log.held.clear()
        requested = runtime.ask_concurrently("g", puts(b"k", b"v", "done"))
        await settle()
        assert not requested.done
        assert machine.state == {}
        log.held.set()
        await settle()
        assert requested.value == "done"

    check(tmp_path, test)


def test_many_operations_are_several_batches(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        requested = [
            runtime.ask_concurrently("g", puts(b"k", b"v", number)) for number in range(2 * TOGETHER + 1)
        ]
        await settle()
        assert [len(list(read_all(batch))) for _, batch in log.batches] == [TOGETHER, TOGETHER, 1]
        assert answers(requested) == list(range(2 * TOGETHER + 1))

    check(tmp_path, test)


def test_only_a_too_large_record_fails(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        values = (b"before", bytes(2_000_000), b"after")
        requested = [runtime.ask_concurrently("g", puts(b"k", value, "ok")) for value in values]
        await settle()
        first, large, last = answers(requested)
        assert (first, last) == ("ok", "ok")
        assert isinstance(large, KafkaError)
        assert large.code is ErrorCode.UNKNOWN_SERVER_ERROR

    check(tmp_path, test)


def test_a_failed_batch_fails_all_its_writes_and_replays_none(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        log.error = ErrorCode.KAFKA_STORAGE_ERROR
        requested = [runtime.ask_concurrently(key, puts(b"k", b"v")) for key in ("g", "g", "g")]
        await settle()
        assert [getattr(each, "code", None) for each in answers(requested)] == [ErrorCode.NOT_COORDINATOR] * 3
        assert machine.state == {}
        log.error = None
        assert await runtime.run("g", puts(b"k", b"v", "ok")) == "ok"

    check(tmp_path, test)


def test_an_operation_that_must_see_the_others_waits_for_them_and_they_for_it(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        def look(_: int) -> Outcome:
            return Outcome([Record(b"seen", machine.state.get(b"k"))], "looked")

        log.held.clear()
        early = [runtime.ask_concurrently("g", puts(b"k", b"%d" % number, number)) for number in range(2)]
        looking = asyncio.ensure_future(runtime.run("g", look))
        await settle()
        late = runtime.ask_concurrently("g", puts(b"k", b"late", "late"))
        await settle()
        assert not looking.done()
        log.held.set()
        assert await looking == "looked"
        assert await answer_of(late) == "late"
        assert answers(early) == [0, 1]
        assert machine.state == {b"k": b"late", b"seen": b"1"}

    check(tmp_path, test)


def test_records_too_large_for_a_batch_are_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> bytes:
        raise AssertionError("a batch is built")

    monkeypatch.setattr(gathering, "build_batch", never)
    monkeypatch.setattr(outcome_writer, "build_batch", never)
    many = [Record(b"%d" % number, b"v" * 100) for number in range(20_000)]

    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        requested = runtime.ask("g", lambda _: Outcome(many, "done"))
        await settle()
        assert isinstance(requested.value, KafkaError)
        assert requested.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        for producer in (None, (7, 0)):
            with pytest.raises(KafkaError) as refused:
                await runtime.run("g", lambda _: Outcome(many, "done"), producer)
            assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not log.batches
        assert machine.state == {}

    check(tmp_path, test)


def test_a_long_operation_of_a_long_request_is_written_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    built = build_batch

    def counted(records: list[NewRecord]) -> bytes:
        work = getcurrent()
        began = getattr(work, "slices", 0)
        batch = built(records)
        turns.append(getattr(work, "slices", 0) - began)
        return batch

    monkeypatch.setattr(gathering, "build_batch", counted)
    many = [Record(b"%05d" % number, b"v" * 10) for number in range(20_000)]

    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        before = runtime.ask_concurrently("g", puts(b"k", b"v", "first"))
        running = await Slicing().run(lambda: runtime.ask("long", lambda _: Outcome(many, "done")))
        assert await answer_of(running) == "done"
        assert before.value == "first"
        assert turns[-1] > 3
        assert [len(list(read_all(batch))) for _, batch in log.batches] == [1, 20_000]
        assert len(machine.state) == 20_001

    check(tmp_path, test)


def test_records_that_were_added_before_are_sent_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a long operation of another key, in slices, completes their batch."""
    built = build_batch
    began: list[int] = []

    def paused(records: list[NewRecord]) -> bytes:
        began.append(len(records))
        if is_sliced():
            getcurrent().parent.switch()
        return built(records)

    monkeypatch.setattr(gathering, "build_batch", paused)

    async def test(runtime: Runtime, machine: Machine, log: Log) -> None:
        requested = [runtime.ask_concurrently("g", puts(b"k", b"first", 1))]
        many = [Record(b"%05d" % number, b"v" * 10) for number in range(20_000)]
        place = runtime.partition_for("g")
        beside = next(key for key in map("h{}".format, count()) if runtime.partition_for(key) == place)
        work, _ = Slicing().begin(lambda: runtime.ask(beside, lambda _: Outcome(many, "done")))
        while not began:
            work.run_slice()
        requested.append(runtime.ask_concurrently("g", puts(b"k", b"second", 2)))
        await settle()
        while not work.done:
            work.run_slice()
        assert [await answer_of(each) for each in requested] == [1, 2]
        values = [record.value for _, batch in log.batches for record in read_all(batch)]
        assert values.index(b"first") < values.index(b"second")
        assert machine.state[b"k"] == b"second"

    check(tmp_path, test)


class Scene:
    """A gathering with a limit, whose loop and appender are the test's. Each operation has a record
    of 10 bytes, at least 17 and at most 50 in a batch; the head of a batch has 61 bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.calls: list[Callable[[], object]] = []
        self.sent: list[tuple[int, int]] = []  # partition, records
        self.ended: list[KafkaError | None] = []
        loop: Any = SimpleNamespace(call_soon=lambda *call: self.calls.append(partial(*call)))
        appender: Any = SimpleNamespace(submit=self._submit)
        self.gathering = Gathering(appender, lambda: max_bytes, loop)

    def _submit(self, partition: Partition, batch: bytes, *_: object) -> None:
        self.sent.append((partition.index, len(list(read_all(batch)))))

    def add(self, partition: int = 0) -> None:
        place = Partition("t", partition, "/d", 3, 77)
        self.gathering.add(place, [Record(b"k", b"v" * 9)], 5, self.ended.append)

    def end_turn(self) -> None:
        while self.calls:
            self.calls.pop(0)()


@pytest.mark.parametrize(("max_bytes", "batches"), [(161, [(0, 2)]), (160, [(0, 1), (0, 1)])])
def test_operations_are_together_as_long_as_their_batch_is_surely_small_enough(
    max_bytes: int, batches: list[tuple[int, int]]
) -> None:
    scene = Scene(max_bytes)
    scene.add()
    scene.add()
    assert scene.sent == batches[:-1]
    scene.end_turn()
    assert scene.sent == batches


@pytest.mark.parametrize(("max_bytes", "batches"), [(78, [(0, 1)]), (77, [])])
def test_an_operation_of_exactly_the_limit_is_sent(
    monkeypatch: pytest.MonkeyPatch, max_bytes: int, batches: list[tuple[int, int]]
) -> None:
    """A larger one is refused before its batch is built."""
    built: list[bytes] = []

    def counted(records: list[NewRecord]) -> bytes:
        built.append(build_batch(records))
        return built[-1]

    monkeypatch.setattr(gathering, "build_batch", counted)
    scene = Scene(max_bytes)
    scene.add()
    scene.end_turn()
    assert scene.sent == batches
    codes = [error and error.code for error in scene.ended]
    assert codes == ([] if batches else [ErrorCode.MESSAGE_TOO_LARGE])
    assert len(built) == len(batches)


def test_partitions_have_a_batch_each() -> None:
    scene = Scene(1000)
    for partition in (0, 1, 0):
        scene.add(partition)
    scene.end_turn()
    assert scene.sent == [(0, 2), (1, 1)]
