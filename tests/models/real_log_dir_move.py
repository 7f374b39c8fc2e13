"""A real control and a real IO worker that move a log to another log dir, whose steps become traces
of the model.

`LogDirMoves`, `IoWorkers`, the store, `Moves`, `Logs` and the drain kernel are real; a queue stands
for the link, and no thread copies before the switch. One log moves back and forth, once a run.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.control import state
from kbroker.control.broker import Broker
from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.io_workers import IoWorkers
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication.service import Replication
from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import Drained, Stop
from kbroker.io.log_dirs.log_move import LogMove
from kbroker.io.log_dirs.moves import Moves
from kbroker.io.logs import Logs
from kbroker.ipc.layout import AppendEntry, Completion, Operation, Slot
from kbroker.ipc.messages import Hello, OpenPartition, Reply
from kbroker.ipc.move_messages import FinishMove, MoveCaughtUp, SwitchMove
from kbroker.ipc.ring import ring_push, ring_take
from kbroker.log import files
from kbroker.protocol.errors import KafkaError
from tests.control.fakes import CLUSTER_ID, ENDPOINT, FakeNetwork, World
from tests.io.append.drain_case import batch
from tests.models.held_link import HeldLink
from tests.models.log_dir_move import KILLS, NEW, OLD, RECORDS, MoveState
from tests.models.paths import Seen, Trace

SETTLED = 25
"""Turns of the loop after which nothing happens by itself."""
KILLED = 0.2
"""Share of the steps before which a process is killed."""
MAX_STEPS = 300
"""More than any run needs in which the partition stays writable."""
WAIT_S = 60
HELD = (OpenPartition, SwitchMove, FinishMove)


def shows(s: MoveState) -> object:
    """What `RealMove` sees of a state of the model."""
    records = (s.old, s.new)[s.dir] if s.dir >= 0 else -1
    return s.dir, records, s.paused, s.acknowledged, s.believed


async def _taken_over(_: int) -> None:
    """No predecessor has left appends."""


class RealWorld(World):
    """A World whose IO worker is not there yet."""

    def start(self) -> Broker:
        config, _ = BrokerConfig.load(self.settings)
        online = state.OnlineDirs(self.dirs, self.directory_ids, self.clean_dirs)
        self.broker = state.build(self.shared, config, online, {"PLAINTEXT": ENDPOINT}, CLUSTER_ID)
        self.network = FakeNetwork()
        self.broker.links.add_network(0, self.network)
        return self.broker


class AtOnce:
    """Stands for an executor without threads."""

    def submit(self, function: Callable[..., object], *arguments: object) -> None:
        function(*arguments)


class NoThread:
    """Stands for the thread that copies: the switch finds all to be copied."""

    def start(self) -> None:
        pass

    def join(self) -> None:
        pass


async def nothing(*_: object) -> None:
    """A call without an effect."""


class RealMove:
    """trace: of the run so far."""

    def __init__(self, root: Path) -> None:
        self.world = RealWorld(root, dirs=2)
        self.trace: list[str | Seen] = []
        self._all_at_once = True
        self._store_gate: asyncio.Future[None] | None = None
        self._store_step: Callable[[], Awaitable[Any]] | None = None
        self._switch_task: asyncio.Task[None] | None = None
        self._executed = self._asked_to_store = False
        self._replies: list[tuple[Any, Reply]] = []
        self._pushed = 0

    async def begin(self) -> None:
        """A topic of one partition whose log is open."""
        self._start_control()
        self._start_worker()
        await self._rest()
        await create_topics(self.world.broker, [NewTopic("t", 1)])

    async def run(self, seed: int) -> Trace:
        """One move in random order. Nothing but the seed decides it."""
        self.here = self._replica.log_dir
        (self.there,) = (one for one in self.world.dirs if one != self.here)
        self._base = int(self._words[Slot.LOG_END])
        self._acknowledged = self._kills = 0
        self._all_at_once = True
        await self._moves.alter("t", 0, self.there, 0)
        self._all_at_once, self.trace = False, []
        self._chance = random.Random(seed)
        for _ in range(MAX_STEPS):
            if not (steps := self._steps()):
                break
            await self._chance.choice(steps)()
            await self._rest()
            self.trace.append(self._seen())
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=WAIT_S)
        return self.trace

    async def _rest(self) -> None:
        for _ in range(SETTLED):
            await asyncio.sleep(0)

    # --- views --------------------------------------------------------------------------------------

    @property
    def _replica(self) -> Replica:
        (replica,) = self.world.broker.catalogue.topics["t"].partitions[0].replicas
        return replica

    @property
    def _words(self) -> Any:
        return self.world.shared.slots[self._replica.slot]

    def _number(self, log_dir: str) -> int:
        return OLD if log_dir == self.here else NEW

    def _seen(self) -> Seen:
        log = self._logs.get(self._replica.slot)
        believed = self._number(self._replica.log_dir)
        if log is None:
            return Seen((-1, -1, False, self._acknowledged, believed))
        log_dir = self._number(files.log_dir_of(log.folder))
        return Seen((log_dir, log.log_end - self._base, log.role.paused, self._acknowledged, believed))

    def _steps(self) -> list[Callable[[], Awaitable[None]]]:
        """What may happen next."""
        steps: list[Callable[[], Awaitable[None]]] = []
        if self._acknowledged < RECORDS:
            steps.append(self._append)
        steps += [partial(self._deliver, number) for number in self._link.calls]
        steps += [partial(self._reply, *each) for each in self._replies]
        if self._store_gate is not None:
            steps += [self._end_store]
        move = self._moves_there.get(self._replica.slot) if self._logs.count else None
        if move is not None and not move.switched and self._switch_task is None:
            steps.append(self._catch_up)
        if steps and self._kills < KILLS and self._chance.random() < KILLED:
            return [self._kill_worker, self._kill_worker, self._kill_control]
        return steps

    @property
    def _moves_there(self) -> dict[int, LogMove]:
        return self._worker_moves._moves

    # --- control ------------------------------------------------------------------------------------

    def _start_control(self) -> None:
        broker = self.world.broker
        self._moves = LogDirMoves(broker, Replication(broker))
        vars(self._moves)["_store"] = partial(self._store, self._moves._store)
        vars(self._moves)["_switch"] = partial(self._switch, self._moves._switch)
        vars(broker)["in_store"] = partial(self._in_store, broker.in_store)
        appender: Any = SimpleNamespace(worker_restarted=lambda _: None, taken_over=_taken_over)
        self._workers = IoWorkers(broker, self._moves, appender, 1, nothing)

    async def _switch(self, own: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._executed = self._asked_to_store = False
        await own(*arguments)
        if self._executed and not self._asked_to_store:
            self.trace.append("LogDirMoves._switch: the link has ended")

    async def _store(self, own: Callable[..., Awaitable[bool]], *arguments: Any) -> bool:
        self._asked_to_store = True
        stored = await own(*arguments)
        end = "_store ends" if stored else "_store: the worker is another one"
        self.trace.append(f"LogDirMoves.{end}")
        return stored

    async def _in_store(self, own: Callable[[Any], Awaitable[Any]], step: Any) -> Any:
        if self._moves._storing:
            self.trace.append("LogDirMoves._store begins")
            self._store_gate = asyncio.get_running_loop().create_future()
            self._store_step = partial(own, step)
            await self._store_gate
        return await own(step)

    async def _end_store(self) -> None:
        gate, self._store_gate, events = self._store_gate, None, len(self.trace)
        assert gate is not None
        gate.set_result(None)
        async with asyncio.timeout(WAIT_S):
            while len(self.trace) == events:
                await asyncio.sleep(0.0002)

    async def _catch_up(self) -> None:
        """The worker's report that the copy has caught up arrives."""
        report = MoveCaughtUp(self._replica.slot, self._replica.generation, self.there)
        self._switch_task = asyncio.get_running_loop().create_task(self._moves.caught_up(report))
        self._switch_task.add_done_callback(self._switched)

    def _switched(self, task: "asyncio.Task[None]") -> None:
        if self._switch_task is task:
            self._switch_task = None

    async def _kill_control(self) -> None:
        """What is being stored may be in the store afterwards, or not."""
        self._kills += 1
        if self._store_gate is not None and self._chance.random() < 0.5:
            assert self._store_step is not None
            await self._store_step()
        self._store_gate = self._switch_task = None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=WAIT_S)
        self._replies.clear()
        self.world.broker.close()
        self.world.start()
        self._start_control()
        self.trace.append(f"control is killed, stored: {self._number(self._replica.log_dir)}")
        self._logs.forget_calls()
        self._connect()

    # --- the IO worker ------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        dirs = tuple(self.world.dirs)
        context: Any = SimpleNamespace(
            shared=self.world.shared, first_start=False, index=0, log_dirs=dirs, clean_dirs=frozenset(),
            same_boot_dirs=frozenset(), closed_logs={},
            config=SimpleNamespace(log_dirs=dirs, get_int=lambda _: 1),
        )  # fmt: skip
        self._drain = Drain(self.world.shared, 0, producers=16)
        self._logs = Logs(context, self._drain, lambda: None)
        vars(self._logs._openings).update(_executor=AtOnce(), _creators=AtOnce())
        self._worker_moves = Moves(self._logs, BrokerConfig, lambda _: None)
        while self._drain.run():  # as a worker that starts refuses the entries of its predecessor
            pass
        self._connect()

    def _connect(self) -> None:
        """Send Hello."""
        if self.world.broker.links.worker(0) is not None:
            self.world.broker.links.lost(self._link)
        self._link: Any = HeldLink(HELD, self._serve, self._sent)
        greeting = self._workers.greet(self._link, Hello("io", 0, 1))
        self._greeting = asyncio.get_running_loop().create_task(greeting)

    def _serve(self, body: Any) -> object:
        handler = self._worker_moves.handlers.get(type(body))
        return None if handler is None else handler(body)

    def _sent(self, body: Any) -> None:
        """A call is on its way."""
        if self._all_at_once:
            asyncio.get_running_loop().call_soon(self._deliver_now)
        elif isinstance(body, OpenPartition) and self._logs.get(body.slot) is None:
            log_dir = self._number(body.log_dir)
            self.trace.append(f"greet: decided, OpenPartition in dir {log_dir}")

    def _deliver_now(self) -> None:
        for number in list(self._link.calls):
            for reply in self._execute(number, self._link.calls.pop(number)):
                self._link.reply(reply)

    async def _deliver(self, number: int) -> None:
        """A call arrives at the worker."""
        body = self._link.calls.pop(number)
        replies = self._execute(number, body)
        if isinstance(body, SwitchMove):
            self._replies += [(self._link, reply) for reply in replies]
        else:
            for reply in replies:
                self._link.reply(reply)

    async def _reply(self, link: HeldLink, reply: Reply) -> None:
        """The reply to SwitchMove arrives at control, maybe after a successor's Hello."""
        self._replies.remove((link, reply))
        link.reply(reply)

    def _execute(self, number: int, body: Any) -> list[Reply]:
        if isinstance(body, OpenPartition):
            return self._open(number, body)
        before = self._logs.log_dir_of(body.slot)
        try:
            value = self._serve(body)
        except KafkaError as error:
            return [Reply(number, None, int(error.code))]
        if isinstance(body, SwitchMove):
            self._executed = bool(value)
            self.trace.append("SwitchMove: Moves.switch, the copy is complete")
        elif before == self.here:
            self.trace.append("FinishMove: Moves.finish")
        else:
            self.trace.append("FinishMove: to a worker that opens its logs")
        return [Reply(number, value)]

    def _open(self, number: int, call: OpenPartition) -> list[Reply]:
        log = self._logs.get(call.slot)
        paused = log is not None and log.role.paused
        self._worker_moves.reopened(call.slot, call.log_dir)
        self._logs.open(call, number)
        replies = self._logs.take_opened(lambda _: (0, ""))
        if self._all_at_once:
            return replies
        if log is None:
            self.trace.append(f"Logs.open in dir {self._number(call.log_dir)}")
        elif not paused or log.role.paused:
            self.trace.append("OpenPartition: the log is open")
        elif files.log_dir_of(log.folder) == self.there:
            self.trace.append("Moves.reopened: finish")
        else:
            self.trace.append("Moves.reopened: resume, copy on")
        return replies

    async def _append(self) -> None:
        """A client's batch: the trace has it if it is acknowledged."""
        shared, data = self.world.shared, batch()
        ring = self.world.sizes.ring_entries
        shared.arenas[0].bytes[: len(data)] = np.frombuffer(data, np.uint8)
        self._pushed += 1
        slot, generation = self._replica.slot, self._replica.generation
        entry = [Operation.APPEND, slot, generation, 0, len(data), self._pushed, (30_000 << 16) | 1, 0]
        assert ring_push(shared.append_ring(0, 0), ring, np.array(entry, np.int64))
        while self._drain.run() or self._drain.out[Drained.STOP] == Stop.FILES:
            if self._drain.out[Drained.STOP] == Stop.FILES:
                self._logs.open_files(slot)
        out = AppendEntry.table(ring)
        assert ring_take(shared.completion_ring(0, 0), ring, out) == 1
        if not out[0][Completion.ERROR]:
            self._acknowledged += 1
            self.trace.append(f"append record {self._acknowledged}, acknowledged")

    async def _kill_worker(self) -> None:
        self._kills += 1
        chance, link = self._chance, self._link
        self._replies = [each for each in self._replies if each[0] is not link or chance.random() < 0.5]
        link.close(*(reply.call_id for by, reply in self._replies if by is link))
        for log in self._logs:
            log.abandon(int(log.published.words[Slot.STATE]))
        self.trace.append("the IO worker is killed, its successor greets")
        self._start_worker()


def runs(
    root: Path,
    seeds: Iterable[int],
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Trace], None] = lambda _: None,
) -> dict[int, Trace]:
    """The trace of each seed. check: is called with it before the next run."""
    monkeypatch.setattr(LogMove, "_new_thread", lambda _: NoThread())
    found: dict[int, Trace] = {}
    real = RealMove(root)

    async def play() -> None:
        await real.begin()
        for seed in seeds:
            found[seed] = await real.run(seed)
            check(found[seed])

    try:
        asyncio.run(play())
    finally:
        real.world.broker.close()
    return found
