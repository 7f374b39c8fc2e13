"""A real IO worker's logs, control's greeting and the supervisor's stop, whose steps become traces
of the model of log openings.

Two logs in one log dir. `Logs`, `IoWorkers` and `LogDirs` are real, so are the end of the worker
and that of the supervisor; queues stand for the links and for the threads that load.
"""

import asyncio
import errno
import random
import shutil
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.io_workers import IoWorkers
from kbroker.control.log_openings import LogOpenings
from kbroker.control.worker import Control
from kbroker.io import openings
from kbroker.io.append.drain import Drain
from kbroker.io.files.log_dir import LogDir
from kbroker.io.logs import Logs
from kbroker.io.openings import Opening
from kbroker.io.recovery import recovery
from kbroker.io.recovery.loaded_log import LoadedLog, LoadRequest
from kbroker.io.worker import Worker
from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.ipc.messages import Hello, OpenPartition
from kbroker.ipc.shared import Shared, Sizes
from kbroker.log import files
from kbroker.supervisor.log_dirs import LogDirs
from kbroker.supervisor.supervisor import Supervisor
from tests.io.append.plain_append import Log, topic_config
from tests.log.batch_bytes import batch
from tests.models.held_link import HeldLink
from tests.models.log_opening import KILLS, LOGS, RUNS, OpeningState
from tests.models.paths import Seen, Trace

GENERATION = 7
TOPIC_ID = b"\1" * 16
TORN = b"half a batch"
STOP = 0.1
"""Share of the steps before which the broker stops."""
FULL = 0.3
"""Share of the logs that find no room, until one of the run has."""
SETTLED = 20
"""Turns of the loop after which nothing happens by itself."""


def shows(state: OpeningState) -> object:
    """What `RealOpenings` sees of a state of the model."""
    return state.torn, state.slots if state.running else (), state.opened, state.marked


async def _taken_over(_: int) -> None:
    """No predecessor has left appends."""


class Threads:
    """Stands for an executor: its work waits until the test has it done."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], object]] = deque()

    def submit(self, function: Callable[..., object], *arguments: object) -> None:
        self.work.append(partial(function, *arguments))

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        assert wait
        assert cancel_futures
        self.work.clear()


class Line:
    """Control's line in the table of processes. written: called with each word."""

    def __init__(self, line: Any, written: Callable[[int], None]) -> None:
        self._line, self._written = line, written

    def __setitem__(self, word: int, value: int) -> None:
        self._line[word] = value
        self._written(word)


async def nothing(*_: object) -> None:
    """A call without an effect."""


class RealOpenings:
    """One run: a broker that starts and stops. trace: of it so far."""

    def __init__(self, root: Path, logs: Path, chance: random.Random, clean: bool) -> None:
        self.path = str(root)
        self._chance = chance
        shutil.copytree(logs, root)
        self._sizes = [self._file(n).stat().st_size for n in range(LOGS)]
        if clean:
            LogDir(self.path).write_clean_marker()
        else:
            for n in range(LOGS):
                self._tear(n)
        self.trace: list[str | Seen] = []
        self.checked: set[str] = set()
        self.full = False
        self._loading: set[int] = set()
        self._run, self._kills, self._errors = 0, 0, 0
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False
        self._start()

    def _folder(self, n: int) -> str:
        return f"{self.path}/{files.folder_name(f't{n}', 0)}"

    def _file(self, n: int) -> Path:
        return Path(files.path(self._folder(n), 0, files.LOG))

    def _tear(self, n: int) -> None:
        with open(self._file(n), "ab") as log:
            log.write(TORN)

    async def play(self) -> Trace:
        """Steps in random order until the last stop."""
        for _ in range(SETTLED):
            await asyncio.sleep(0)
        while steps := self._steps():
            self._chance.choice(steps)()
            busy = self._running and (self._link.calls or self._threads.work)
            for _ in range(self._chance.choice((0, 1, SETTLED)) if busy else SETTLED):
                await asyncio.sleep(0)
            self.trace.append(self._seen())
        return self.trace

    def _seen(self) -> Seen:
        torn = tuple(self._file(n).stat().st_size > self._sizes[n] for n in range(LOGS))
        opened = tuple(self.logs.get(n) is not None for n in range(LOGS))
        slots = tuple(int(self._shared.slots[n, Slot.STATE]) for n in range(LOGS)) if self._running else ()
        return Seen((torn, slots, opened, self._marked()))

    def _marked(self) -> bool:
        return Path(self.path, files.CLEAN_SHUTDOWN).exists()

    def _steps(self) -> list[Callable[[], None]]:
        """What may happen next."""
        if not self._running:
            return [self._start_again] if self._run < RUNS else []
        steps: list[Callable[[], None]] = []
        steps += [partial(self._deliver, number) for number in self._link.calls] * 2
        if self._threads.work:
            steps += [self._load, self._load, self._load]
        if self._kills < KILLS and any(self.logs.get(n) for n in range(LOGS)):
            steps.append(self._kill)
        return [self._stop] if not steps or self._chance.random() < STOP else steps

    # --- the supervisor -----------------------------------------------------------------------------

    def _start_again(self) -> None:
        self._start()
        self.trace.append("the broker starts, take_clean_marker")

    def _start(self) -> None:
        self._run += 1
        self._dirs = LogDirs([self.path], 1)
        self._shared = Shared(
            Sizes(clients=1, workers=1, max_partitions=LOGS, ring_entries=8, arena_bytes=4096)
        )
        self._shared.slots[:, Slot.GENERATION] = GENERATION
        self._running = True
        self._start_control()
        self._start_worker(first=True)

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        supervisor: Any = Supervisor.__new__(Supervisor)
        vars(supervisor).update(
            shared=self._shared,
            config=SimpleNamespace(get_bool=lambda _: False),
            _acceptor=SimpleNamespace(fds=tuple, close=lambda: None),
            _children=[SimpleNamespace(role=SimpleNamespace(stop_rank=0))],
            _stop=lambda _: self._end_worker() == 0,
            _dirs=self._dirs,
            _dir_errors=SimpleNamespace(failed=()),
        )
        supervisor._drain(failed=False)
        self._running = False
        self.trace.append(f"the broker stops, {'marked' if self._marked() else 'not marked'}")

    # --- control ------------------------------------------------------------------------------------

    def _start_control(self) -> None:
        topics = [SimpleNamespace(name=f"t{n}") for n in range(LOGS)]
        replicas = [SimpleNamespace(folder=self._folder(n)) for n in range(LOGS)]
        listed = [(topics[n], n, replicas[n]) for n in range(LOGS)]
        broker: Any = SimpleNamespace(
            logs_of=lambda _: listed,
            open_call=lambda _, n, __: self._call(n),
            nodes=SimpleNamespace(sites=[0]),
            log_openings=LogOpenings(nothing),
            dynamic_settings=dict,
            orphans=[],
            cached_answers=SimpleNamespace(topics_changed=lambda: None),
            links=SimpleNamespace(add_worker=lambda *_: None),
            has=lambda _: True,
            not_opened=lambda *_: None,
        )
        moves: Any = SimpleNamespace(worker_started=lambda _: None, decided=nothing, begin_again=nothing)
        appender: Any = SimpleNamespace(worker_restarted=lambda _: None, taken_over=_taken_over)
        self._workers = IoWorkers(broker, moves, appender, 1, nothing)
        all_open = self._workers.all_open
        vars(all_open)["set"] = partial(self._all_open, all_open.set)
        line = self._shared.processes[self._shared.control_client]
        control: Any = SimpleNamespace(
            _workers=self._workers,
            _line=Line(line, self._line_written),
            _context=SimpleNamespace(epoch=1),
            _background=SimpleNamespace(start=lambda _: None),
            _mark_checked_dirs=lambda: None,
            _broker=broker,
        )
        self._task(Control._once_all_are_open(control))

    def _call(self, n: int) -> OpenPartition:
        return OpenPartition(n, GENERATION, f"t{n}", 0, TOPIC_ID, self.path, 0, topic_config())

    def _task(self, work: Any) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def _all_open(self, own: Callable[[], None]) -> None:
        if not self._workers.all_open.is_set():
            self.trace.append("control: IoWorkers, all logs are open")
        own()

    def _line_written(self, word: int) -> None:
        assert word == ProcessLine.LOGS_OPEN
        self.trace.append("control: LOGS_OPEN")

    # --- the IO worker ------------------------------------------------------------------------------

    def _start_worker(self, first: bool) -> None:
        context: Any = SimpleNamespace(
            shared=self._shared, first_start=first, index=0, log_dirs=(self.path,),
            clean_dirs=self._dirs.clean, same_boot_dirs=frozenset(), closed_logs=self._dirs.closed_logs,
            config=SimpleNamespace(log_dirs=(self.path,), get_int=lambda _: 1),
        )  # fmt: skip
        self.logs = Logs(context, Drain(self._shared, 0, producers=16), lambda: None)
        self._threads = Threads()
        vars(self.logs._openings).update(_executor=self._threads, _creators=self._threads)
        vars(self.logs)["_bring_online"] = partial(self._bring_online, self.logs._bring_online)
        self.checked.clear()
        self._loading.clear()
        self._first = first
        self._link: Any = HeldLink((OpenPartition,))
        self._task(self._workers.greet(self._link, Hello("io", 0, 1)))

    def _deliver(self, number: int) -> None:
        call = self._link.calls.pop(number)
        self.logs.open(call, number)
        if self._shared.slots[call.slot, Slot.STATE] == SlotState.RECOVERING:
            self.trace.append(f"log {call.slot} is being loaded")
            self._loading.add(call.slot)
        self._take_opened()

    def _load(self) -> None:
        unchecked = self._first and self._dirs.clean
        if not self._errors and not unchecked and self._chance.random() < FULL:
            self.full = True
        self._threads.work.popleft()()
        self.full = False
        self._take_opened()

    def _take_opened(self) -> None:
        for reply in self.logs.take_opened(lambda _: (0, "")):
            self._link.reply(reply)

    def _bring_online(
        self, own: Callable[..., tuple[int, str]], opening: Opening, begin_role: Any
    ) -> tuple[int, str]:
        found = own(opening, begin_role)
        name = f"log {opening.message.slot}"
        if found[0]:
            self._errors += 1
            self.trace.append(f"{name} cannot be opened: no room")
        else:
            unchecked = "" if opening.folder in self.checked else ", unchecked"
            as_closed = "" if opening.message.slot in self._loading else " as it was closed"
            self.trace.append(f"{name} is opened{as_closed}{unchecked}")
        return found

    def _kill(self) -> None:
        self._kills += 1
        self._link.close()
        for log in self.logs:
            self._tear(log.slot)
            log.abandon(SlotState.ONLINE)
        self._dirs.forget_closed_logs()
        self._start_worker(first=False)
        self.trace.append("the IO worker is killed while it appends, its successor starts")

    def _end_worker(self) -> int:
        """Its exit code."""
        if self._threads.work and self._chance.random() < 0.5:
            self._threads.work.popleft()()  # a thread ends what it has begun
        part = SimpleNamespace(close=lambda: None, wake=lambda: None)
        worker: Any = SimpleNamespace(
            _append=lambda: False, moves=part, held=part, durability=part, drain=part, cleaning=part,
            replicas=SimpleNamespace(begin=lambda _: (0, "")), logs=self.logs, context=SimpleNamespace(index=0),
        )  # fmt: skip
        try:
            Worker._drain_and_close(worker)
        except SystemExit as stopped:
            return int(stopped.code or 0)
        return 0


def watch(monkeypatch: pytest.MonkeyPatch, current: list[RealOpenings]) -> None:
    """Let the current run see which logs are checked, and let its log dir be full."""
    load, create_folder = recovery.load, openings.create_folder

    def noted(request: LoadRequest) -> LoadedLog:
        if not request.clean:
            current[-1].checked.add(request.folder)
        return load(request)

    def refused(folder: str, topic_id: bytes) -> bool:
        if current[-1].full:
            raise OSError(errno.ENOSPC, "no room")
        return create_folder(folder, topic_id)

    monkeypatch.setattr(recovery, "load", noted)
    monkeypatch.setattr(openings, "create_folder", refused)


def two_logs(root: Path) -> Path:
    """A log dir with two logs of three records."""
    for n in range(LOGS):
        log = Log(root, topic=f"t{n}")
        log.open()
        for _ in range(3):
            log.append(batch(0, [b"v"]))
        log.partition.close()
    return root


def runs(
    root: Path,
    seeds: Iterable[int],
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Trace], None] = lambda _: None,
) -> dict[int, Trace]:
    """The trace of each seed. check: is called with it before the next run."""
    found: dict[int, Trace] = {}
    current: list[RealOpenings] = []
    logs = two_logs(root / "logs")
    watch(monkeypatch, current)

    async def play() -> None:
        for seed in seeds:
            chance = random.Random(seed)
            current[:] = [RealOpenings(root / str(seed), logs, chance, clean=chance.random() < 0.5)]
            found[seed] = await current[0].play()
            check(found[seed])
            shutil.rmtree(root / str(seed))

    asyncio.run(play())
    return found
