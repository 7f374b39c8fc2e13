"""What later snapshots replace is deleted from the front of `__share_group_state`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.changes.internal_topic import ensure
from kbroker.control.coordinator.machine import Operation, Record
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.share import pruning
from kbroker.control.share.pruning import CHECK_S, FEW_RECORDS, StatePruning
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.service import ShareService
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import DeleteRecords, SyncLog
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world

TOPIC = "__share_group_state"
TOPIC_ID = bytes(range(16))


class Log:
    """The first partition of the topic with its states. loaded: partitions of the topic; refused:
    the key whose snapshot is not written; appended: the keys of all records; topic, run: the
    runtime's."""

    def __init__(self, made: World, states: int, records: int) -> None:
        self.topic = TOPIC
        self.loaded: set[int] = {0}
        self.refused = ""
        self.shard = ShareStateShard()
        self.keys = [ShareKey("team", TOPIC_ID, number) for number in range(states)]
        self._made = made
        self._pending: list[Record] = []
        self.appended: list[bytes] = []
        self.partition = made.broker.catalogue.topics[TOPIC].partitions[0]
        written: list[Record] = []
        for number in range(records):
            done = Range(number, number, DeliveryState.ACKNOWLEDGED, 1)
            outcome = self.shard.write(self.keys[number % states], 0, [done], 7)
            self._replay(outcome.records)
            written += outcome.records
        self._append(written)
        runtime: Any = self
        self._pruning = StatePruning(made.broker, runtime, self.shard)

    def _replay(self, records: Sequence[Record]) -> None:
        for record in records:
            self.shard.replay(0, record.key, record.value, 7)

    def _append(self, records: Sequence[Record]) -> None:
        new = [(record.key, record.value, (), 7) for record in records]
        slots = self._made.shared.slots
        durable = int(slots[self.partition.slot, Slot.DURABLE])
        self._made.worker.append(self.partition, *new)
        slots[self.partition.slot, Slot.DURABLE] = durable
        self.appended += [record.key for record in records]

    async def run(self, key: str, operation: Operation) -> None:
        await asyncio.sleep(0)
        if key == self.refused:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        records = operation(7).records
        self._append(records)
        pending, self._pending = self._pending, []
        self._replay(pending + records)

    async def prune(self) -> None:
        await self._pruning.prune()

    def forget(self, key: ShareKey) -> None:
        """Delete a state."""
        records = self.shard.delete(key).records
        self._append(records)
        self._replay(records)

    def append_only(self, key: ShareKey) -> None:
        """Append the first record of a state; `run` replays it, before its own records."""
        self._pending = self.shard.initialize(key, 0, 7).records
        self._append(self._pending)

    @property
    def end(self) -> int:
        return self.word(Slot.LOG_END)

    def word(self, word: int) -> int:
        return int(self._made.broker.slots.group(self.partition.slot)[word])

    def deletions(self) -> list[int]:
        """The offset of each deletion that an IO worker was sent."""
        return [call.offset for call in self._made.worker.calls if isinstance(call, DeleteRecords)]


Body = Callable[[World, Log], Awaitable[None]]


def with_log(folder: Path, states: int, records: int, body: Body) -> None:
    async def main() -> None:
        await ensure(made.broker, TOPIC)
        await body(made, Log(made, states, records))

    with world(folder, {"share.coordinator.state.topic.num.partitions": "2"}) as made:
        asyncio.run(main())


def test_a_long_log_is_shortened_to_a_snapshot_of_each_state(tmp_path: Path) -> None:
    async def body(_: World, log: Log) -> None:
        before = [log.shard.get(key) for key in log.keys]
        ranges = [list(each.ranges) for each in before if each]
        await log.prune()
        assert log.deletions() == [FEW_RECORDS + 1]
        assert log.word(Slot.LOG_START) == FEW_RECORDS + 1
        assert log.end == FEW_RECORDS + 1 + 3  # one snapshot of each state, and nothing else
        after = [log.shard.get(key) for key in log.keys]
        assert [list(each.ranges) for each in after if each] == ranges
        assert [each.updates for each in after if each] == [0, 0, 0]

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


@pytest.mark.parametrize(
    ("states", "records", "deletes"),
    [(3, FEW_RECORDS, False), (300, 1200, False), (300, 1201, True), (250, 1001, True)],
)
def test_a_short_log_is_left_as_it_is(tmp_path: Path, states: int, records: int, deletes: bool) -> None:
    async def body(_: World, log: Log) -> None:
        await log.prune()
        assert log.deletions() == ([records] if deletes else [])
        assert log.end == records + (states if deletes else 0)

    with_log(tmp_path, states, records, body)


def test_a_log_that_was_shortened_is_short(tmp_path: Path) -> None:
    async def body(_: World, log: Log) -> None:
        await log.prune()
        await log.prune()
        assert len(log.deletions()) == 1

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_nothing_is_deleted_while_a_state_is_not_written_as_a_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(_: World, log: Log) -> None:
        log.refused = str(log.keys[1])
        with caplog.at_level(logging.WARNING):
            await log.prune()
        assert log.deletions() == []
        assert "could not be shortened" in caplog.text

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_nothing_is_deleted_before_the_snapshots_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the log would start after its end, without any state."""

    async def body(made: World, log: Log) -> None:
        worker: Any = made.worker
        monkeypatch.setattr(worker, "_SyncLog", lambda _: None)
        pending = asyncio.ensure_future(log.prune())
        while not any(isinstance(call, SyncLog) for call in made.worker.calls):
            await asyncio.sleep(0)
        await asyncio.sleep(2 * CHECK_S)
        assert log.deletions() == []
        made.shared.slots[log.partition.slot, Slot.DURABLE] = log.end
        await pending
        assert log.deletions() == [FEW_RECORDS + 1]

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_nothing_is_deleted_while_the_disk_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pruning, "SYNC_S", 0.1)

    async def body(made: World, log: Log) -> None:
        worker: Any = made.worker
        monkeypatch.setattr(worker, "_SyncLog", lambda _: None)
        with caplog.at_level(logging.WARNING):
            await log.prune()
        assert log.deletions() == []
        assert "could not be shortened" in caplog.text

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_a_state_that_is_new_while_others_are_written_as_snapshots_is_not_lost(tmp_path: Path) -> None:
    async def body(_: World, log: Log) -> None:
        new = ShareKey("others", TOPIC_ID, 0)
        log.append_only(new)
        await log.prune()
        assert log.deletions() == [FEW_RECORDS + 1]
        assert log.shard.rewrite(new, 7).records[0].key in log.appended[FEW_RECORDS + 1 :]

    with_log(tmp_path, 3, FEW_RECORDS, body)


def test_a_log_without_states_is_left_alone(tmp_path: Path) -> None:
    """A state may be on its way there."""

    async def body(_: World, log: Log) -> None:
        for key in log.keys:
            log.forget(key)
        log.append_only(log.keys[0])
        await log.prune()
        assert log.deletions() == []

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_a_partition_that_is_not_loaded_or_offline_is_left_alone(tmp_path: Path) -> None:
    async def body(made: World, log: Log) -> None:
        log.loaded = {1}
        await log.prune()
        log.loaded = {0}
        made.shared.slots[log.partition.slot, Slot.STATE] = SlotState.OFFLINE
        await log.prune()
        assert log.deletions() == []
        assert log.end == FEW_RECORDS + 1

    with_log(tmp_path, 3, FEW_RECORDS + 1, body)


def test_without_the_topic_there_is_nothing_to_do(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        runtime: Any = SimpleNamespace(topic=TOPIC, loaded=set())
        asyncio.run(StatePruning(made.broker, runtime, ShareStateShard()).prune())


def test_the_service_prunes_at_the_interval_of_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned: list[StatePruning] = []

    async def prune(one: StatePruning) -> None:
        pruned.append(one)

    async def body() -> None:
        every: dict[str, tuple[int, Callable[[], None]]] = {}

        def repeat(interval_ms: int, name: str, action: Callable[[], None]) -> None:
            every[name] = interval_ms, action

        runtime: Any = SimpleNamespace(attach=lambda _: None, every=repeat)
        table = SimpleNamespace(overrides=GroupOverrides())
        groups: Any = SimpleNamespace(shard=SimpleNamespace(table=table))
        append: Any = None
        service = ShareService(made.broker, groups, runtime, lambda _: None, append)
        interval_ms, action = every["prune"]
        assert interval_ms == 7000
        action()
        await asyncio.sleep(0)
        assert len(pruned) == 1
        assert pruned[0]._shard is service.shard

    monkeypatch.setattr(StatePruning, "prune", prune)
    with world(tmp_path, {"share.coordinator.state.topic.prune.interval.ms": "7000"}) as made:
        asyncio.run(body())
