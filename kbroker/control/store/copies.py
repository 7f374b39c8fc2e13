"""The copies of the store, on the disks of all sites: every change is written to all of them at the
same time.

A copy that cannot be written, or takes too long, is dropped: before the change is answered, the
others record that it is out of date, unless their disks refuse that. It is copied again from one of
them when its log dir is usable (by `check`, and at each start).
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import Struct, field

from kbroker.control.store.choice import write_copy
from kbroker.control.store.store import Store, StoreError
from kbroker.ipc.crash_point import crash_point

log = logging.getLogger(__name__)

T = TypeVar("T")
Report = Callable[[Collection[str], Collection[str]], None]

PATIENCE_S = 1.0
"""The time for which a copy may lag behind the fastest one."""
CHECK_S = 5.0


def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "store")


class Copy(Struct, eq=False):
    """A file and the one thread that touches it."""

    store: Store
    thread: ThreadPoolExecutor = field(default_factory=_thread)

    def leave(self) -> "Future[None]":
        """Close it when its thread is free; on a disk that hangs that may never happen."""
        closed = self.thread.submit(self.store.close)
        self.thread.shutdown(wait=False)
        return closed


class StoreCopies:
    """Runs in: control, in the event loop, except for the constructor. Owner: the Broker.

    required: returns the log dirs that should have a copy now; copies in other log dirs are
    dropped. report: called with the log dirs of current copies, and with all that have or had one,
    when these change.
    """

    def __init__(
        self, first: Store, required: Callable[[], Sequence[str]], report: Report = lambda *_: None
    ) -> None:
        self._copies = {str(first.path.parent): Copy(first)}
        self._leaving: dict[str, Future[Any]] = {}
        self._required = required
        self._changing = asyncio.Lock()
        self._expected = {*first.copies, *self._copies}
        self._report = report

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Log dirs of the current copies."""
        return tuple(self._copies)

    @property
    def first(self) -> Store:
        """The store of a current copy."""
        return next(iter(self._copies.values())).store

    def complete(self) -> None:
        """Write all other copies again, at start, before anything else runs. Blocks."""
        first = self.first
        missing = [log_dir for log_dir in self._required() if log_dir not in self._copies]
        first.put_copies([*self._copies, *missing])
        for log_dir in missing:
            try:
                self._copies[log_dir] = Copy(write_copy(first.path, log_dir))
            except (OSError, sqlite3.Error, StoreError) as error:
                log.error("cannot keep a copy of the store in %s: %s", log_dir, error)
        if len(self._copies) <= len(missing):
            for copy in self._copies.values():
                copy.store.put_copies(self.log_dirs)
        self._expected.update(missing)
        self._report(self.log_dirs, self._expected)

    async def reserve(self) -> None:
        """Reserve space in the first copy, as the others did when they were written. After the
        start: it syncs four times, and no client needs to wait for that."""
        async with self._changing:
            first = next(iter(self._copies.values()))
            await asyncio.get_running_loop().run_in_executor(first.thread, first.store.reserve)

    async def run(self, step: Callable[[Store], T]) -> T:
        """Run a step in every copy; steps run one after another. When this returns, the result is
        on disk in all current copies. Raises sqlite3.Error if the step failed in every copy."""
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(step)))

    async def keep_checking(self) -> None:
        """Call `check` at intervals, forever."""
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self.check()
            except sqlite3.Error as error:  # as of a full disk: later checks write the copies again
                log.error("the copies of the store cannot be checked: %s", error)

    async def check(self) -> None:
        """Drop copies whose log dir has failed; rewrite outdated copies where possible."""
        required = self._required()
        if all(log_dir in self._copies for log_dir in required) and len(required) == len(self._copies):
            return
        async with self._changing:
            await self._leave_failed()
            for log_dir in required:
                leaving = self._leaving.get(log_dir)
                if log_dir not in self._copies and (leaving is None or leaving.done()):
                    await self._join(log_dir)

    def close(self) -> None:
        """Finish pending writes, and close every copy."""
        for copy in self._copies.values():
            copy.thread.shutdown(wait=True)
            copy.store.close()

    async def _in_turn(self, step: Callable[[Store], T]) -> T:
        async with self._changing:
            await self._leave_failed()
            return await self._run_in_all(step)

    async def _leave_failed(self) -> None:
        required = self._required()
        failed = [log_dir for log_dir in self._copies if log_dir not in required]
        if failed and len(failed) < len(self._copies):
            await self._leave(dict.fromkeys(failed, "its log dir is offline"))

    async def _run_in_all(self, step: Callable[[Store], T]) -> T:
        loop = asyncio.get_running_loop()
        tasks = {
            log_dir: loop.run_in_executor(copy.thread, partial(_step, step, copy.store))
            for log_dir, copy in self._copies.items()
        }
        await _wait_for_copies(tasks.values())
        done = {log_dir: task for log_dir, task in tasks.items() if task.done()}
        good = [task for task in done.values() if task.exception() is None]
        if not good:
            if len(done) == len(tasks):
                await self._drop_divergent()
            raise cast(BaseException, next(iter(done.values())).exception())
        outdated = {
            log_dir: "it takes too long" if log_dir not in done else str(task.exception())
            for log_dir, task in tasks.items()
            if task not in good
        }
        if outdated:
            try:
                await self._leave(outdated)
            except sqlite3.Error as error:  # the result is on disk, and a start would find it
                log.error("the list of the store's copies cannot be stored: %s", error)
        return good[0].result()

    async def _drop_divergent(self) -> None:
        """The change failed in every copy; a copy that may have stored it despite its error is
        dropped."""
        if len(self._copies) > 1:
            versions = {log_dir: copy.store.version for log_dir, copy in self._copies.items()}
            lowest = min(versions.values())
            if ahead := [log_dir for log_dir, version in versions.items() if version > lowest]:
                await self._leave(dict.fromkeys(ahead, "it holds what the others refused"))

    async def _leave(self, log_dirs: dict[str, str]) -> None:
        for log_dir, why in log_dirs.items():
            log.error("the store's copy in %s is out of date from now on: %s", log_dir, why)
            self._leaving[log_dir] = self._copies.pop(log_dir).leave()
        counted = self.log_dirs
        self._report(counted, self._expected)
        await self._run_in_all(lambda store: store.put_copies(counted))

    async def _join(self, log_dir: str) -> None:
        thread = _thread()
        making = thread.submit(write_copy, self.first.path, log_dir)
        try:
            store = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(making)), PATIENCE_S)
        except (TimeoutError, OSError, sqlite3.Error, StoreError) as error:
            log.debug("no copy of the store in %s yet: %s", log_dir, error)
            making.add_done_callback(_close_late)
            self._leaving[log_dir] = making
            thread.shutdown(wait=False)
            return
        self._copies[log_dir] = Copy(store, thread)
        counted = self.log_dirs
        await self._run_in_all(lambda store: store.put_copies(counted))
        self._expected.add(log_dir)
        self._report(self.log_dirs, self._expected)
        log.info("the store has a copy in %s again", log_dir)


def _step(step: Callable[[Store], T], store: Store) -> T:
    done = step(store)
    crash_point("store: one copy written")
    return done


async def _wait_for_copies(tasks: Sequence[Any] | Any) -> None:
    """Wait for all tasks, but not for long after the first success."""
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() is None for task in done):
            break
    if pending:
        await asyncio.wait(pending, timeout=PATIENCE_S)


def _close_late(making: "Future[Store]") -> None:
    if making.exception() is None:
        making.result().close()
