"""Real shared partitions over a log in memory, whose steps become traces of the model.

`SharePartitions`, `SharePartition`, `ShareStateShard` and the runtime are real; appends end as the
test says. Each run has a group of its own.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Outcome
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import partitions as share_partitions
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.partitions import SharePartitions
from kbroker.control.share.ranges import DeliveryState
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.record_types import record_type
from kbroker.protocol.records import Record, read_all
from tests.control.fakes import World, world
from tests.control.groups.commit_scene import Done
from tests.models.paths import Seen, Trace
from tests.models.share_state import (
    ACCEPTED,
    AVAILABLE,
    CHANGES,
    FAILURES,
    HELD,
    KILLS,
    RECORDS,
    ShareState,
)

MEMBER = "member"
SETTLED = 20
"""Turns of the loop after which nothing happens by itself."""
SNAPSHOT = 0
"""Record type of a whole state."""
KINDS = {ACCEPTED: AcknowledgeType.ACCEPT, AVAILABLE: AcknowledgeType.RELEASE}
NAMES = {AVAILABLE: "released", ACCEPTED: "accepted"}
STATES = {
    DeliveryState.AVAILABLE: AVAILABLE,
    DeliveryState.ACQUIRED: HELD,
    DeliveryState.ACKNOWLEDGED: ACCEPTED,
}


def shows(s: ShareState) -> object:
    """What `RealShare` sees of a state of the model."""
    return tuple(each.state for each in s.records), s.start, s.answered


class Log:
    """Stands for the Appender. waiting: batches whose end is not known, in order."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[bytes, Done]] = deque()

    async def append(self, partition: Partition, batch: bytes, timeout_ms: int = 0) -> int:
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def ended(failure: KafkaError | None) -> None:
            if not written.done():
                written.set_exception(failure) if failure else written.set_result(0)

        self.submit(partition, batch, ended)
        return await written

    def submit(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = 0) -> None:
        self.waiting.append((batch, done))


class RealShare:
    """trace: of the run so far."""

    def __init__(self, made: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._broker = made.broker
        self._now_ms = 0
        self.trace: list[str | Seen] = []
        self._overrides = GroupOverrides()
        self._answers: set[asyncio.Task[None]] = set()
        monkeypatch.setattr(share_partitions, "monotonic_ms", lambda: self._now_ms)

    async def begin(self) -> None:
        await create_topics(self._broker, [NewTopic("orders", 1)])

    async def run(self, seed: int) -> Trace:
        """One run in random order. Nothing but the seed decides it."""
        topic_id = self._broker.catalogue.topics["orders"].topic_id
        self.key = ShareKey(f"group-{seed}", topic_id, 0)
        self._overrides.put(self.key.group_id, {"share.auto.offset.reset": "earliest"})
        self._written: list[Record] = []
        self._answered = [""] * RECORDS
        self._changes = self._failures = self._kills = 0
        self._latest: dict[int, int] = {}
        chance = self._chance = random.Random(seed)
        await self._start()
        opening = asyncio.get_running_loop().create_task(self._partitions.open(self.key))
        while not self._log.waiting:
            await asyncio.sleep(0)
        self._end_append(None)
        self._partition: SharePartition = await opening
        for n in range(RECORDS):
            self._acquire(n)
        self.trace = []
        while steps := self._steps():
            await chance.choice(steps)()
            for _ in range(chance.choice((0, 1, 2, 3, SETTLED))):
                await asyncio.sleep(0)
            if not self._steps() or chance.random() < 0.5:
                await self._rest()
                self.trace.append(self._seen())
        return self.trace

    async def _rest(self) -> None:
        for _ in range(SETTLED):
            await asyncio.sleep(0)

    def _states(self) -> list[str]:
        found = [ACCEPTED] * RECORDS
        for n in range(self._partition.start_offset, RECORDS):
            held = next(iter(self._partition._in_flight.between(n, n)), None)
            found[n] = AVAILABLE if held is None else STATES[held.state]
        return found

    def _seen(self) -> Seen:
        return Seen((tuple(self._states()), self._partition.start_offset, tuple(self._answered)))

    def _steps(self) -> list[Callable[[], Any]]:
        """What may happen next."""
        steps: list[Callable[[], Any]] = []
        if self._changes < CHANGES:
            for n, state in enumerate(self._states()):
                if state == AVAILABLE and n <= self._partition.end_offset + 1:
                    steps.append(partial(self._acquire_again, n))
                elif state == HELD:
                    steps += [partial(self._acknowledge, n, kind) for kind in KINDS]
            if (first := self._first_lock()) is not None:
                steps.append(partial(self._expire, *first))
        if self._log.waiting:
            steps += [self._append_ends] * 2
            if self._failures < FAILURES:
                steps += [self._append_fails, self._append_times_out]
        if steps and self._kills < KILLS:
            steps.append(self._kill)
        return steps

    # --- control ------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Control starts, with what is in the log of the group's state."""
        loop = asyncio.get_running_loop()
        self._log = Log()
        self._runtime = Runtime(self._broker, self._log, SHARE_GROUP_STATE, loop)
        shard = self._shard = ShareStateShard()
        self._runtime.attach(shard)
        await self._runtime.ready()
        index = self._runtime.partition_for(str(self.key))
        for record in self._written:
            shard.replay(index, record.key or b"", record.value, 0)
        vars(shard)["write"] = partial(self._decided, shard.write)
        groups: Any = SimpleNamespace(shard=SimpleNamespace(table=SimpleNamespace(overrides=self._overrides)))
        timers: Any = SimpleNamespace(schedule=lambda *_: None, cancel=lambda _: None)
        self._partitions = SharePartitions(
            self._broker, groups, self._runtime, shard, timers, lambda _: None, self._log.append
        )

    def _decided(self, own: Callable[..., Outcome], *arguments: Any) -> Outcome:
        outcome = own(*arguments)
        _, start, changed, _ = arguments
        if changed:
            how = "snapshot" if record_type(outcome.records[0].key) == SNAPSHOT else "update"
            self.trace.append(f"record {changed[0].first}: ShareStateShard.write, {how} from {start}")
            self._writing = changed[0].first
        return outcome

    async def _kill(self) -> None:
        self._kills += 1
        late = bool(self._log.waiting) and self._chance.random() < 0.5
        if late:
            self._keep(self._log.waiting[0][0])
        self.trace.append("control is killed, the write is in the log" if late else "control is killed")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        self._runtime.close()
        self._answered = ["" if each == HELD else each for each in self._answered]
        await self._start()
        self._partition = await self._partitions.open(self.key)

    # --- the member ---------------------------------------------------------------------------------

    def _acquire(self, n: int) -> None:
        limits = self._partitions.limits(self.key.group_id)
        self._now_ms += 1
        (given,) = self._partition.acquire(MEMBER, [(n, n)], Spec(1), limits, self._now_ms)
        assert (given.first, given.last) == (n, n)

    async def _acquire_again(self, n: int) -> None:
        self._answered[n], self._latest[n] = "", 0
        self._acquire(n)
        self.trace.append(f"record {n}: SharePartition.acquire")

    async def _acknowledge(self, n: int, kind: str) -> None:
        self._changes += 1
        self._answered[n] = ""
        self.trace.append(f"record {n}: SharePartition.acknowledge, {NAMES[kind]}")
        limits = self._partitions.limits(self.key.group_id)
        batch = AcknowledgedBatch(n, n, [KINDS[kind]])
        self._partition.acknowledge(MEMBER, [batch], limits, self._now_ms)
        task = asyncio.get_running_loop().create_task(self._settle(n, kind, self._changes))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        await asyncio.sleep(0)

    async def _settle(self, n: int, kind: str, number: int) -> None:
        """Wait for the answer. It says nothing of a record that another change was made to."""
        self._latest[n] = number
        try:
            await self._partitions.settle(self.key, self._partition)
        except KafkaError:
            kind = HELD
        if self._latest[n] == number:
            self._answered[n] = kind

    def _first_lock(self) -> tuple[int, int] | None:
        """The record whose lock ends first, and when; None if several end then."""
        held = sorted(
            (each.deadline_ms, n)
            for each in self._partition._in_flight
            if each.state is DeliveryState.ACQUIRED
            for n in range(each.first, each.last + 1)
        )
        if not held or (len(held) > 1 and held[1][0] <= max(held[0][0], self._now_ms)):
            return None
        return held[0][1], held[0][0]

    async def _expire(self, n: int, deadline_ms: int) -> None:
        self._changes += 1
        self._answered[n] = ""
        self._latest[n] = self._changes
        self._now_ms = max(self._now_ms, deadline_ms)
        self.trace.append(f"record {n}: SharePartition.expire")
        self._partitions._expire(self.key, self._partition)
        await asyncio.sleep(0)

    # --- appends ------------------------------------------------------------------------------------

    def _keep(self, batch: bytes) -> None:
        self._written += list(read_all(batch))

    def _end_append(self, error: ErrorCode | None) -> None:
        batch, done = self._log.waiting.popleft()
        if error is None or error is ErrorCode.REQUEST_TIMED_OUT:
            self._keep(batch)
        done(None if error is None else KafkaError(error))

    async def _append_ends(self) -> None:
        self.trace.append(f"record {self._writing}: in the log")
        self._end_append(None)
        await self._rest()

    async def _append_fails(self) -> None:
        self._failures += 1
        self.trace.append(f"record {self._writing}: the append fails")
        self._end_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await self._rest()

    async def _append_times_out(self) -> None:
        self._failures += 1
        self.trace.append(f"record {self._writing}: the append times out, in the log")
        self._end_append(ErrorCode.REQUEST_TIMED_OUT)
        await self._rest()


def runs(root: Path, seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> dict[int, Trace]:
    """The trace of each seed."""
    found: dict[int, Trace] = {}

    async def play(made: World) -> None:
        real = RealShare(made, monkeypatch)
        await real.begin()
        for seed in seeds:
            found[seed] = await real.run(seed)

    with world(root, {"share.coordinator.state.topic.num.partitions": "2"}) as made:
        asyncio.run(play(made))
    return found
