"""Blocks that logs have reserved beyond their ends (`append/drain_kernel.py`): which logs may
reserve, and when blocks are freed.
"""

import ctypes
import logging
import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow
from kbroker.io.files.log_dir import LogDir
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log import files

log = logging.getLogger(__name__)

EXT4_SUPER_MAGIC = 0xEF53
STATFS_BYTES = 256  # more than any struct statfs; f_type is its first word
LOW_ROOM = 1 << 30  # bytes; on a disk with less free space no log reserves blocks
_libc = ctypes.CDLL(None, use_errno=True)


def is_worthwhile(folder: str) -> bool:
    """Whether writers of a file system wait for its write-back to allocate blocks: ext4. XFS
    reserves by itself, tmpfs would fill memory with zeros, and a network file system would ask its
    server."""
    found = ctypes.create_string_buffer(STATFS_BYTES)
    if _libc.statfs(os.fsencode(folder), found) != 0:
        return False
    return ctypes.c_long.from_buffer(found).value == EXT4_SUPER_MAGIC


class Reservations:
    """Runs in: io. Owner: Logs. rows: those of AppendRow that are in use; max_bytes:
    kbroker.log.reserve.bytes; failed: called with a slot whose file could not be truncated."""

    def __init__(
        self,
        rows: Callable[[], NDArray[np.int64]],
        dirs: Mapping[str, LogDir],
        max_bytes: int,
        get: Callable[[int], UnifiedLog | None],
        failed: Callable[[int, OSError], None],
    ) -> None:
        self._rows = rows
        self._dirs = dirs
        self._max_bytes = max_bytes
        self._get = get
        self._failed = failed
        self._by_dir: dict[str, int] = {}

    def max_bytes(self, log_dir: str) -> int:
        """Bytes that a log of a log dir may reserve at a time, 0 for none."""
        if log_dir not in self._by_dir:
            self._by_dir[log_dir] = self._max_bytes if self._max_bytes and is_worthwhile(log_dir) else 0
        return self._by_dir[log_dir]

    def free_unused(self, now_ms: int) -> None:
        """Free blocks that were unused for KEEP_MS, or reserved before the wall clock was set back,
        and all blocks on a disk with little free space."""
        held = list(self._held())
        log_dirs = {files.log_dir_of(partition.folder) for partition in held}
        low = {log_dir for log_dir in log_dirs if self._is_low(log_dir)}
        for partition in held:
            if not partition.is_open:  # an error of another log has just taken the log dir offline
                continue
            if files.log_dir_of(partition.folder) in low:
                self._free(partition, max_bytes=0)
            elif not 0 <= now_ms - self._rows()[partition.slot, AppendRow.RESERVED_MS] <= AppendRow.KEEP_MS:
                self._free(partition, partition.active.reserve_max_bytes)

    def free(self, log_dir: str) -> None:
        """Free all reserved blocks, because the space is needed."""
        for partition in self._held():
            if files.log_dir_of(partition.folder) == log_dir:
                self._free(partition, max_bytes=0)

    def _held(self) -> Iterable[UnifiedLog]:
        rows = self._rows()
        for slot in np.flatnonzero(rows[:, AppendRow.RESERVED] > rows[:, AppendRow.POSITION]).tolist():
            partition = self._get(slot)
            if partition is not None:
                yield partition

    def _is_low(self, log_dir: str) -> bool:
        try:
            return self._dirs[log_dir].space()[1] < LOW_ROOM
        except OSError:
            return False  # the check of the log dirs will find the failure

    def _free(self, partition: UnifiedLog, max_bytes: int) -> None:
        try:
            partition.active.free_reserved(max_bytes)
        except OSError as error:
            log.warning("%s: reserved blocks cannot be freed: %s", partition.folder, error)
            self._failed(partition.slot, error)
