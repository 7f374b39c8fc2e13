"""The records of an outcome are replayed once they are in the log; then the response is given."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.coordinator.gathering import LONG_BYTES
from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.coordinator.outcome_writer import MANY_RECORDS, OutcomeWriter, is_long
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.coordinator.runtime_scene import TOPIC, Log, Machine, run

K, V = b"k", b"v"


def write(folder: Path, test: Callable[[OutcomeWriter, Partition, Machine, Log], Awaitable[None]]) -> None:
    """Run a test with the writer of a loaded topic, and its first partition."""

    async def body(runtime: Any, machine: Machine, log: Log, made: Any) -> None:
        appender: Any = log
        writer = OutcomeWriter(runtime, made.broker, appender, Slicing(), asyncio.get_running_loop(), 1000)
        await test(writer, made.broker.catalogue.topics[TOPIC].partitions[0], machine, log)

    run(folder, body)


async def settled(answer: Deferred) -> Any:
    arrived = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    return await asyncio.wait_for(arrived, 60)


def test_the_response_follows_the_replay(tmp_path: Path) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, machine: Machine, log: Log) -> None:
        seen: list[dict[bytes, bytes | None]] = []
        answer = writer.submit(
            partition, Outcome([Record(K, V)], "done"), lambda: seen.append({**machine.state})
        )
        assert not answer.done
        assert await settled(answer) == "done"
        assert (seen, log.timeout_ms) == ([{K: V}], 1000)

    write(tmp_path, test)


def test_a_late_response_is_given_when_it_is_complete(tmp_path: Path) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, machine: Machine, _: Log) -> None:
        late = Deferred()
        ended = asyncio.Event()
        answer = writer.submit(partition, Outcome([Record(K, V)], late), ended.set)
        await ended.wait()
        assert machine.state == {K: V}
        assert not answer.done
        late.complete("at last")
        assert answer.value == "at last"

    write(tmp_path, test)


def test_a_known_effect_is_applied_instead_of_the_replay(tmp_path: Path) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, machine: Machine, _: Log) -> None:
        applied: list[int] = []
        outcome = Outcome([Record(K, V)], "done", apply=applied.append)
        assert await settled(writer.submit(partition, outcome, lambda: None)) == "done"
        assert (applied, machine.state) == ([partition.index], {})

    write(tmp_path, test)


@pytest.mark.parametrize("waits", [False, True])
def test_a_failed_append_is_the_coordinators_error_and_is_not_replayed(tmp_path: Path, waits: bool) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, machine: Machine, log: Log) -> None:
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        codes: list[ErrorCode] = []
        with_then = Outcome([Record(K, V)], "done", then=codes.append)
        if waits:
            with pytest.raises(KafkaError) as refused:
                await writer.write(partition, Outcome([Record(K, V)]), None)
            error: Any = refused.value
            await writer.write(partition, with_then, None)
        else:
            error = await settled(writer.submit(partition, Outcome([Record(K, V)]), lambda: None))
            await settled(writer.submit(partition, with_then, lambda: None))
        assert (error.code, codes) == (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            [ErrorCode.COORDINATOR_NOT_AVAILABLE],
        )
        assert machine.state == {}

    write(tmp_path, test)


class Following(Machine):
    """Its records are changes of a state."""

    replays_timed_out = True


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_records_of_a_failed_append_are_replayed_if_the_log_has_them(
    tmp_path: Path, follows: bool, waits: bool, error: ErrorCode
) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, _: Machine, log: Log) -> None:
        log.error = error
        machine = Following() if follows else Machine()
        writer._topic.attach(machine)
        seen: list[tuple[ErrorCode, int]] = []
        outcome = Outcome([Record(K, V)], then=lambda code: seen.append((code, len(machine.state))))
        if waits:
            await writer.write(partition, outcome, None)
            with pytest.raises(KafkaError):
                await writer.write(partition, Outcome([Record(K, V)]), None)
        else:
            await settled(writer.submit(partition, outcome, lambda: None))
            answer = await settled(writer.submit(partition, Outcome([Record(K, V)]), lambda: None))
            assert isinstance(answer, KafkaError)
        assert seen == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, int(follows))]
        assert machine.state == ({K: V} if follows else {})

    write(tmp_path, test)


def test_an_operation_that_fails_after_its_append_ends_its_turn(tmp_path: Path) -> None:
    async def test(writer: OutcomeWriter, partition: Partition, _: Machine, __: Log) -> None:
        def fail(_: int) -> None:
            raise ValueError("a bug")

        ended: list[bool] = []
        outcome = Outcome([Record(K, V)], "done", apply=fail)
        answer = await settled(writer.submit(partition, outcome, lambda: ended.append(True)))
        assert isinstance(answer, KafkaError)
        assert (answer.code, ended) == (ErrorCode.UNKNOWN_SERVER_ERROR, [True])

    write(tmp_path, test)


def test_an_operation_that_the_arena_cannot_hold_fails_and_the_next_ones_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever max.message.bytes of the topic is."""

    async def test(writer: OutcomeWriter, partition: Partition, machine: Machine, _: Log) -> None:
        arena = writer._broker.shared.sizes.arena_bytes
        config = SimpleNamespace(max_message_bytes=4 * arena)
        monkeypatch.setattr(writer._broker, "topic_config", lambda _: config)
        ended: list[str] = []
        large = writer.submit(partition, Outcome([Record(K, bytes(arena))]), lambda: ended.append("large"))
        small = writer.submit(partition, Outcome([Record(K, V)], "done"), lambda: ended.append("small"))
        answer = await settled(large)
        assert isinstance(answer, KafkaError)
        assert answer.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await settled(small) == "done"
        assert (sorted(ended), machine.state) == (["large", "small"], {K: V})

    write(tmp_path, test)


@pytest.mark.parametrize(
    ("records", "long"),
    [
        ([Record(K, V)] * MANY_RECORDS, False),
        ([Record(K, V)] * (MANY_RECORDS + 1), True),
        ([Record(K, bytes(LONG_BYTES - 1))], False),
        ([Record(K, bytes(LONG_BYTES))], True),
        ([Record(bytes(LONG_BYTES + 1), None)], True),
    ],
)
def test_many_records_or_large_ones_are_replayed_in_slices(records: list[Record], long: bool) -> None:
    assert is_long(records) == long
