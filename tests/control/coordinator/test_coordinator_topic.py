"""What a coordinator knows of its topic: loaded once and in order, made when needed, forgotten when
deleted."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.coordinator import coordinator_topic
from kbroker.control.coordinator.log_windows import LogWindows
from kbroker.control.coordinator.replay import load_partition
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.coordinator.runtime_scene import TOPIC, Log, Machine, puts, run
from tests.control.fakes import World, world


def test_a_partition_that_is_not_loaded_answers_load_in_progress(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        runtime.loaded.discard(runtime.partition_for("g"))
        with pytest.raises(KafkaError) as refused:
            await runtime.run("g", puts(b"k", b"v"))
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(tmp_path, test)


def test_every_record_is_replayed_at_start_in_order(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = made.broker.catalogue.topics[TOPIC].partitions[1]
        for number in range(700):
            made.worker.append(
                partition, (b"k%d" % (number % 3), b"%d" % number, (), 1000), (b"last", None, (), 1000)
            )
        made.shared.slots[partition.slot, Slot.LOG_START] = 4
        fresh, successor = Machine(), Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(fresh)
        await successor.load()
        assert fresh.state == {b"k0": b"699", b"k1": b"697", b"k2": b"698", b"last": None}
        assert sorted(fresh.loads) == [0, 1, 2, 3]

    run(tmp_path, test)


def test_the_topic_is_made_when_it_is_first_needed(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        assert len(made.broker.catalogue.topics[TOPIC].partitions) == 4
        assert sorted(machine.loads) == [0, 1, 2, 3]
        await runtime.ready()
        assert sorted(machine.loads) == [0, 1, 2, 3]

    run(tmp_path, test)


def test_a_partition_that_can_not_be_read_does_not_keep_the_others_from_loading(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = made.broker.catalogue.topics[TOPIC].partitions[2]
        made.shared.slots[partition.slot, Slot.STATE] = SlotState.OFFLINE
        successor = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(Machine())
        await successor.load()
        assert successor.loaded == {0, 1, 3}
        key = next(key for key in map(str, range(100)) if successor.partition_for(key) == 2)
        with pytest.raises(KafkaError) as refused:
            await successor.run(key, puts(b"k", b"v"))
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        made.shared.slots[partition.slot, Slot.STATE] = SlotState.ONLINE
        await successor.load()
        assert successor.loaded == {0, 1, 2, 3}

    run(tmp_path, test)


def test_a_deleted_topic_is_forgotten_and_created_again(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        await delete_topics(made.broker, lambda: [made.broker.catalogue.topics[TOPIC]])
        assert machine.loads == []
        with pytest.raises(KafkaError) as refused:
            await runtime.run("g", puts(b"k", b"v"))
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await runtime.ready()
        assert sorted(machine.loads) == [0, 1, 2, 3]
        await runtime.run("g", puts(b"k", b"v"))

    run(tmp_path, test)


class Forgetting(Machine):
    """Remembers the partitions that it has dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.unloads: list[int] = []

    def unloaded(self, partition: int) -> None:
        self.unloads.append(partition)


@pytest.mark.parametrize("readable", [True, False])
def test_a_topic_that_is_deleted_while_it_is_loaded_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        async def load(broker: Broker, partition: Partition, machine: Any, tables: LogWindows) -> int:
            count = await load_partition(broker, partition, machine, tables)
            await delete_topics(broker, lambda: [broker.catalogue.topics[TOPIC]])
            if not readable:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
            return count

        monkeypatch.setattr(coordinator_topic, "load_partition", load)
        fresh, successor = Forgetting(), Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(fresh)
        await successor.load()
        assert (successor.loaded, fresh.loads, fresh.unloads) == (set(), [], [0])

    run(tmp_path, test)


Waiting = Callable[[Runtime, Forgetting, World, Partition], Awaitable[None]]


def with_unacknowledged_record(folder: Path, test: Waiting) -> None:
    """Run the test with a runtime whose partition 1 ends with a record that may still be lost."""

    async def body(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = made.broker.catalogue.topics[TOPIC].partitions[1]
        made.worker.append(partition, (b"k", b"1", (), 1000))
        made.shared.slots[partition.slot, Slot.HIGH_WATERMARK] = 0
        fresh, successor = Forgetting(), Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(fresh)
        await successor.load()
        assert (successor.loaded, sorted(fresh.loads)) == ({0, 2, 3}, [0, 2, 3])
        await successor.ready()  # as each FindCoordinator does
        assert (sorted(fresh.loads), fresh.unloads) == ([0, 2, 3], [])
        await test(successor, fresh, made, partition)

    run(folder, body)


async def until(met: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not met():
            await asyncio.sleep(0.001)


def test_a_coordinator_waits_until_a_predecessors_records_cannot_be_lost(tmp_path: Path) -> None:
    """The transaction coordinator sent markers for a decision that a power cut would have removed,
    and the group coordinator returned such offsets: control was restarted while a sync hung."""

    async def test(runtime: Runtime, machine: Forgetting, made: World, partition: Partition) -> None:
        key = next(key for key in map(str, range(100)) if runtime.partition_for(key) == 1)
        await asyncio.sleep(0.02)
        with pytest.raises(KafkaError) as refused:
            await runtime.run(key, puts(b"k", b"v"))
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        made.shared.slots[partition.slot, Slot.HIGH_WATERMARK] = 1
        await until(lambda: 1 in runtime.loaded)
        assert (sorted(machine.loads), machine.unloads) == ([0, 1, 2, 3], [])

    with_unacknowledged_record(tmp_path, test)


def test_a_partition_whose_last_records_are_lost_is_loaded_again(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Forgetting, made: World, partition: Partition) -> None:
        line = made.shared.slots[partition.slot]
        line[Slot.LOG_END] = line[Slot.ACTIVE_END] = 0
        await until(lambda: 1 in runtime.loaded)
        assert (sorted(machine.loads), machine.unloads) == ([0, 1, 2, 3], [1])

    with_unacknowledged_record(tmp_path, test)


def test_a_topic_that_is_deleted_while_it_waits_is_forgotten(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Forgetting, made: World, partition: Partition) -> None:
        await delete_topics(made.broker, lambda: [made.broker.catalogue.topics[TOPIC]])
        assert (runtime.loaded, sorted(machine.unloads)) == (set(), [0, 1, 2, 3])
        await runtime.ready()
        await asyncio.sleep(0.05)
        assert runtime.loaded == {0, 1, 2, 3}
        assert sorted(machine.unloads) == [0, 1, 2, 3]

    with_unacknowledged_record(tmp_path, test)


def test_loading_twice_at_once_replays_once(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        machine.loads.clear()
        runtime.loaded.clear()
        await asyncio.gather(runtime.load(), runtime.ready(), runtime.load())
        assert sorted(machine.loads) == [0, 1, 2, 3]

    run(tmp_path, test)


def refusal(check: Callable[[], None]) -> ErrorCode:
    """NONE if it is none."""
    try:
        check()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_checks_have_kafkas_errors_while_the_topic_is_loaded_and_without_it(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        def found() -> tuple[bool, list[ErrorCode]]:
            checks = (
                runtime.check_topic,
                lambda: runtime.check_loaded("g"),
                lambda: runtime.check_loaded(other),
                runtime.check_all_loaded,
            )
            return runtime.is_ready, [refusal(check) for check in checks]

        none, loading, gone = (
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        )
        place = runtime.partition_for("g")
        other = next(key for key in map(str, range(100)) if runtime.partition_for(key) != place)
        assert found() == (True, [none] * 4)
        runtime.loaded.discard(place)
        assert found() == (False, [none, loading, none, loading])
        await delete_topics(made.broker, lambda: [made.broker.catalogue.topics[TOPIC]])
        assert found() == (False, [gone, gone, gone, none])

    run(tmp_path, test)


def test_a_disk_that_hangs_holds_up_no_load_of_others_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_topic, "READY_S", 0.01)
    may_end = asyncio.Event()

    async def load(broker: Broker, partition: Partition, machine: Any, tables: LogWindows) -> int:
        if partition.worker == 1:
            await may_end.wait()
        return await load_partition(broker, partition, machine, tables)

    async def body(made: World) -> None:
        log = Log()
        first = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        first.attach(Machine())
        await first.ready()
        monkeypatch.setattr(coordinator_topic, "load_partition", load)
        successor, machine = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop()), Machine()
        successor.attach(machine)
        await successor.load(0.01)
        partitions = made.broker.catalogue.topics[TOPIC].partitions
        own = {each.index for each in partitions if each.worker == 0}
        assert 0 < len(own) < 4
        for _ in range(3):
            await successor.ready()
            assert successor.loaded == own
        keys = {successor.partition_for(str(number)): str(number) for number in range(100)}
        await successor.ready_for(keys[min(own)])
        with pytest.raises(KafkaError) as refused:
            await successor.ready_for(keys[min({0, 1, 2, 3} - own)])
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        may_end.set()
        await successor.load()
        assert sorted(machine.loads) == [0, 1, 2, 3]

    with world(tmp_path, workers=2, dirs=2) as made:
        asyncio.run(asyncio.wait_for(body(made), 60))


def test_logs_that_are_created_late_are_loaded_when_they_are_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        slot = made.broker.catalogue.topics[TOPIC].partitions[2].slot
        made.shared.slots[slot, Slot.STATE] = SlotState.FREE
        made.broker.log_openings.begin([TOPIC])
        successor = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(Machine())
        for _ in range(2):
            await successor.load()
            assert successor.loaded == {0, 1, 3}
        made.shared.slots[slot, Slot.STATE] = SlotState.ONLINE
        made.broker.log_openings.end([TOPIC])
        await until(lambda: 2 in successor.loaded)
        assert "cannot be loaded" not in caplog.text

    run(tmp_path, test)


def test_a_partition_of_a_worker_that_restarts_is_not_loaded(tmp_path: Path) -> None:
    """Its log may lack what a predecessor of control appended."""

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        made.broker.links.lost(made.worker)
        successor = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(Machine())
        await successor.load()
        assert successor.loaded == set()
        made.broker.links.add_worker(0, made.worker)
        await successor.load()
        assert successor.loaded == {0, 1, 2, 3}

    run(tmp_path, test)


def test_records_whose_append_timed_out_are_not_read_before_they_are_acknowledged(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        line = made.shared.slots[made.broker.catalogue.topics[TOPIC].partitions[1].slot]
        keys = {runtime.partition_for(str(number)): str(number) for number in range(100)}

        def readable(key: str) -> bool:
            return refusal(lambda: runtime.check_loaded(key)) is ErrorCode.NONE

        runtime.replayed_late(1)
        assert readable(keys[1])
        line[Slot.LOG_END] = 5
        runtime.replayed_late(1)
        line[Slot.LOG_END] = 7
        runtime.replayed_late(1)
        assert (readable(keys[1]), readable(keys[2])) == (False, True)
        assert runtime.is_loaded(keys[1])
        line[Slot.HIGH_WATERMARK] = 5
        await asyncio.sleep(0.1)
        assert not readable(keys[1])
        line[Slot.HIGH_WATERMARK] = 7
        await until(lambda: readable(keys[1]))
        line[Slot.LOG_END] = 9
        runtime.replayed_late(1)
        line[Slot.STATE] = SlotState.OFFLINE
        await until(lambda: 1 not in machine.loads)
        assert not readable(keys[1])
        line[Slot.LOG_END] = 0
        line[Slot.STATE] = SlotState.ONLINE
        await until(lambda: readable(keys[1]))

    run(tmp_path, test)


def test_records_that_are_lost_after_their_append_has_timed_out_are_forgotten(tmp_path: Path) -> None:
    """They were replayed, and another replica leads without them. What is pending ends first: its
    replay would come before the log's."""

    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = made.broker.catalogue.topics[TOPIC].partitions[1]
        key = next(key for key in map(str, range(100)) if runtime.partition_for(key) == 1)
        made.worker.append(partition, (b"k", b"kept", (), 1000))
        machine.replay(1, b"k", b"lost", 1000)
        line = made.shared.slots[partition.slot]
        line[Slot.LOG_END] = 2
        runtime.replayed_late(1)
        log.held.clear()
        runtime.ask(key, puts(b"k", b"pending"))
        await asyncio.sleep(0.01)
        line[Slot.LOG_END] = 1
        await until(lambda: 1 not in runtime.loaded)
        assert refusal(lambda: runtime.check_loaded(key)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.05)
        assert (1 in machine.loads, machine.state[b"k"]) == (True, b"lost")
        log.held.set()
        await until(lambda: refusal(lambda: runtime.check_loaded(key)) is ErrorCode.NONE)
        assert (sorted(machine.loads), machine.state[b"k"]) == ([0, 1, 2, 3], b"kept")
        assert runtime.loaded == {0, 1, 2, 3}

    run(tmp_path, test)
