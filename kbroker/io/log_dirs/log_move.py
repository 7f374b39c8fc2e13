"""Moves one open log to another log dir: copies its files to a ``-future`` folder, in rounds.

The log stays in use meanwhile. Each round compares the copy with the current segments (sizes,
inodes) and copies what differs, so rolls, retention, deletions and compaction need no special
handling. After a truncation, as of a follower whose leader changes, everything after the cut is
copied again. The last bytes of the active segment, at most LAST_BYTES, are copied while appends are
paused.

The ``-future`` folder is the only state of a move that survives a crash: it exists from the first
answer to the end of the move.
"""

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from kbroker.io.files.log_dir import futures_of
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.crash_point import crash_point
from kbroker.kernels.memory import INT64_MAX
from kbroker.log import checkpoint, files

LAST_BYTES = 8 << 20
PIECE = 4 << 20
MIN_PIECE = 4096
PAUSE_S = 0.05


class SegmentState(Struct, frozen=True):
    """One segment as it is now. bytes: of its .log. closed: nothing is appended any more."""

    base: int
    bytes: int
    closed: bool


class MoveEnded(Exception):
    """The move was cancelled."""


class TargetFailed(OSError):
    """An error of the log dir to which a log is copied, not of the one that it is in."""


@contextmanager
def in_target(source: str | None = None) -> Iterator[None]:
    """Errors within are of the target. source: a file that is copied; if it cannot be read, the
    error is its own. Raises TargetFailed, OSError."""
    try:
        yield
    except TargetFailed:
        raise
    except OSError as error:
        if source is not None:
            _read(source)
        raise TargetFailed(error.errno, error.strerror, error.filename) from error


class LogMove:
    """Owner: Moves of the IO worker. `copy` runs in a thread; the rest in the worker.

    folder: the future one. target: the log dir. next_offset: end of the copy after the last round.
    error: the exception that ended the thread. bytes_per_second: limit of the copying, inf for
    none.
    """

    def __init__(self, log: UnifiedLog, target: str, bytes_per_second: Callable[[], float]) -> None:
        self.log = log
        self.target = target
        name = files.dated_folder_name(log.topic, log.partition, uuid.uuid4().hex, files.FUTURE_FOLDER)
        self.folder = f"{target}/{name}"  # or the folder of an interrupted move
        self.bytes = 0
        self.next_offset = 0
        self.error: Exception | None = None
        self.caught_up = False
        self._ended = threading.Event()
        self.switched = False
        self._plan: tuple[list[SegmentState], int] = ([], 0)
        self._have: dict[int, tuple[int, int, bool]] = {}  # base: (inode, bytes, closed)
        self._cuts = log.segments.cuts
        self._bytes_per_second = bytes_per_second
        self._thread = self._new_thread()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="log-move", daemon=True)

    def start(self) -> None:
        """Create the folder, or empty an existing one, and start to copy. Raises TargetFailed."""
        with in_target():
            self._make_folder()
        crash_point("move: folder made")
        self._thread.start()

    def _make_folder(self) -> None:
        _retire_remainder(self.target, self.log)
        left = futures_of(self.target, self.log.topic, self.log.partition, self.log.topic_id)
        for other in left[1:]:
            shutil.rmtree(other)
        if left:
            self.folder = left[0]
            for path in Path(self.folder).iterdir():
                path.unlink()
        else:
            Path(self.folder).mkdir()
            files.sync_folder(self.target)
        checkpoint.write_topic_id(self.folder, self.log.topic_id)  # names the topic, in case it is deleted

    @property
    def generation(self) -> int:
        """Generation of the log's slot."""
        return self.log.published.generation

    def list_segments(self) -> None:
        """Record the log's current segments. The thread may see an unfinished roll; the next round
        sees it finished."""
        active = self.log.active
        closed = [
            SegmentState(segment.base_offset, segment.size, True)
            for segment in tuple(self.log.segments.closed)
        ]
        self._plan = ([*closed, SegmentState(active.base_offset, active.position, False)], active.next_offset)

    def cancel(self) -> None:
        """End the thread and remove the copy."""
        self.leave()
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        """End the thread and keep the copy, so that the move can be resumed."""
        self._ended.set()
        self._thread.join()

    def resume(self) -> None:
        """Continue to copy after `complete`: the log stays in its log dir for now, and may grow."""
        self.switched = self.caught_up = False
        self._ended.clear()
        self._thread = self._new_thread()
        self._thread.start()

    # --- in the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self.list_segments()
                plan, end = self._plan
                before = self._missing(plan)
                self._round(plan, throttled=True)
                self.next_offset = end
                self.caught_up = before <= LAST_BYTES
                self._ended.wait(PAUSE_S)
        except MoveEnded:
            return
        except Exception as error:
            self.error = error

    def _missing(self, plan: list[SegmentState]) -> int:
        missing = 0
        for state in plan:
            have = self._have.get(state.base)
            missing += state.bytes - (have[1] if have is not None else 0)
        return missing

    def _forget_cut(self) -> None:
        """Drop the copied bytes of records that a truncation removed: other records may be in their
        place now."""
        cuts = self.log.segments.cuts
        if cuts == self._cuts:
            return
        bases = sorted(self._have)
        for base, following in zip(bases, [*bases[1:], INT64_MAX], strict=False):  # of none: the end
            if following > self.log.segments.lowest_cut:
                self._drop(base)
        self._cuts = cuts

    def _round(self, plan: list[SegmentState], throttled: bool) -> None:
        self._forget_cut()
        for base in set(self._have) - {state.base for state in plan}:
            self._drop(base)
        for state in plan:
            with suppress(FileNotFoundError):  # deleted or compacted meanwhile; the next round handles it
                self._copy_segment(state, throttled)
        if any(state.base not in self._have for state in plan):
            self.caught_up = False
        self.bytes = sum(size for _, size, _ in self._have.values())

    def _copy_segment(self, state: SegmentState, throttled: bool) -> None:
        source = files.path(self.log.folder, state.base, files.LOG)
        with open(source, "rb", buffering=0) as log:
            inode = os.fstat(log.fileno()).st_ino
            have = self._have.get(state.base)
            if have == (inode, state.bytes, state.closed):
                return
            if have is not None and (have[0] != inode or have[1] > state.bytes):
                self._drop(state.base)
                have = None
            try:
                self._copy_bytes(log.fileno(), state, have[1] if have is not None else 0, throttled)
            except FileNotFoundError:  # it was cut; its copied bytes must not stay after the new ones
                self._drop(state.base)
                raise
            status = os.fstat(log.fileno())
        if state.closed:
            for suffix in (*files.SEGMENT_SUFFIXES[1:], files.SNAPSHOT):
                self._copy_file(state.base, suffix)
            times = (status.st_atime_ns, status.st_mtime_ns)
            with in_target():
                os.utime(files.path(self.folder, state.base, files.LOG), ns=times)
        self._have[state.base] = (inode, state.bytes, state.closed)

    def _copy_bytes(self, source: int, state: SegmentState, position: int, throttled: bool) -> None:
        path = files.path(self.folder, state.base, files.LOG)
        with in_target():
            out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.lseek(out, position, os.SEEK_SET)
            while position < state.bytes:
                if throttled and self._ended.is_set():
                    raise MoveEnded
                began = time.monotonic()
                rate = self._bytes_per_second()
                piece = PIECE if rate > 10 * PIECE else max(MIN_PIECE, int(rate) // 10)
                sent = _send(out, source, position, min(piece, state.bytes - position))
                if sent == 0:
                    raise FileNotFoundError(f"segment {state.base} became shorter")
                position += sent
                if throttled:
                    self._ended.wait(max(0.0, sent / rate - (time.monotonic() - began)))
            with in_target():
                os.fdatasync(out)
        finally:
            os.close(out)

    def _copy_file(self, base: int, suffix: str) -> None:
        source, target = files.path(self.log.folder, base, suffix), files.path(self.folder, base, suffix)
        with suppress(FileNotFoundError), in_target(source):
            shutil.copy2(source, target)
            files.sync_file(target)

    def _drop(self, base: int) -> None:
        self._have.pop(base, None)
        with in_target():
            for suffix in (*files.SEGMENT_SUFFIXES, files.SNAPSHOT):
                Path(files.path(self.folder, base, suffix)).unlink(missing_ok=True)

    # --- the end, in the worker, with appends paused ----------------------------------------------------

    def complete(self) -> bool:
        """Copy the rest and sync the whole copy; False when too much is left. Raises OSError.

        After True the thread has ended, and the copy is the log."""
        self.list_segments()
        if self.error is not None or self._missing(self._plan[0]) > LAST_BYTES:
            return False
        if self._cuts != self.log.segments.cuts:
            return False
        self.leave()
        plan, end = self._plan
        self._round(plan, throttled=False)
        if any(state.base not in self._have for state in plan):
            raise OSError(f"{self.log.folder} changed while its last bytes were copied")
        active = plan[-1].base
        for suffix in (*files.SEGMENT_SUFFIXES[1:], files.SNAPSHOT):
            self._copy_file(active, suffix)
        self._finish_folder()
        self.next_offset = end
        self.switched = True
        return True

    def _finish_folder(self) -> None:
        """Copy the files of the whole log, and sync the names of all files."""
        for name in (files.LEADER_EPOCH_CHECKPOINT, files.PARTITION_METADATA):
            source = Path(self.log.folder, name)
            if source.exists():
                with in_target(str(source)):
                    shutil.copy2(source, Path(self.folder, name))
                    files.sync_file(f"{self.folder}/{name}")
        with in_target():
            files.sync_folder(self.folder)
            files.sync_folder(self.target)

    def rename(self) -> str:
        """Give the copy its name in the target log dir; the path. Raises OSError."""
        final = f"{self.target}/{files.folder_name(self.log.topic, self.log.partition)}"
        Path(self.folder).rename(final)
        files.sync_folder(self.target)
        crash_point("move: copy renamed")
        return final


def _send(out: int, source: int, position: int, count: int) -> int:
    """Copy bytes to the end of what was copied; returns how many, 0 at the end of the source.
    Raises TargetFailed, and OSError if the source cannot be read."""
    try:
        return os.sendfile(out, source, position, count)
    except OSError as error:
        os.pread(source, 1, position)
        raise TargetFailed(error.errno, error.strerror) from error


def _read(path: str) -> None:
    """Read a whole file. Raises OSError."""
    with open(path, "rb", buffering=0) as source:
        while source.read(PIECE):
            pass


def _retire_remainder(log_dir: str, log: UnifiedLog) -> None:
    """Rename a folder that an interrupted earlier move left in the log dir: it has the name that
    the copy needs."""
    folder = Path(log_dir, files.folder_name(log.topic, log.partition))
    if folder.is_dir():
        unique = uuid.uuid4().hex
        folder.rename(
            folder.with_name(files.dated_folder_name(log.topic, log.partition, unique, files.DELETE_FOLDER))
        )
