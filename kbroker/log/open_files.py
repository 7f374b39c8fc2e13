"""A bounded cache of open segment files, shared by all readers of a process."""

import errno
import os
import resource
from collections import OrderedDict
from contextlib import suppress
from typing import Final
from weakref import WeakSet, WeakValueDictionary

from kbroker.log import files

NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a call that has not reached the disk: no more files can be open now."""
CAPACITY: Final = 4096
CAPACITY_SHARE: Final = 4
"""One in this many descriptors of the process is for a cache at most."""


class OpenFile:
    """A file descriptor that is closed with its last reference.

    An answer that is being sent keeps this object, so that neither the cache's
    eviction nor the deletion of the segment can give the number to another file meanwhile.
    """

    __slots__ = ("__weakref__", "fd", "inode")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self.fd).st_ino

    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self.fd).st_size

    def contents(self) -> tuple[int, int]:
        """Bytes of the file now, and when they were changed last (ns): others than before if it was
        cut meanwhile, however long it is again."""
        status = os.fstat(self.fd)
        return status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if self.fd >= 0:
            with suppress(OSError):
                os.close(self.fd)


Key = tuple[str, int, str]


class OpenFiles:
    """LRU of OpenFile by (folder, base offset, suffix). Runs in: network processes, control, tools.
    Not thread-safe. capacity: by the limit of the process if None."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = default_capacity() if capacity is None else capacity
        self._files: OrderedDict[Key, OpenFile] = OrderedDict()
        self._by_key: WeakValueDictionary[Key, OpenFile] = WeakValueDictionary()
        """Files of the cache, and files that left it while an answer was being sent. A client that
        reads many files, and no answers, would else have the same files open many times."""
        self._alive: WeakSet[OpenFile] = WeakSet()

    def get(self, folder: str, base_offset: int, suffix: str) -> OpenFile:
        """The open file; opens it when needed, without a free descriptor in place of others. Raises
        FileNotFoundError, OSError."""
        key = (folder, base_offset, suffix)
        found = self._files.get(key)
        if found is not None:
            self._files.move_to_end(key)
            return found
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = self._opened(files.path(folder, base_offset, suffix))
            self._alive.add(found)
        self._files[key] = found
        self.shrink(self.capacity)
        return found

    def _opened(self, path: str) -> OpenFile:
        try:
            return OpenFile(path)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS or not self._files:
                raise
        self.shrink(len(self._files) // 2)
        return OpenFile(path)

    def shrink(self, count: int) -> None:
        """Drop the files that were not used for longest, until so many are left."""
        while len(self._files) > count:
            self._files.popitem(last=False)

    def known(self, folder: str, base_offset: int, suffix: str) -> OpenFile | None:
        """The file if it is open."""
        key = (folder, base_offset, suffix)
        found = self._files.get(key)
        if found is None:
            return self._by_key.get(key)
        self._files.move_to_end(key)
        return found

    def forget(self, folder: str, base_offset: int) -> None:
        """Drop a segment's files: it was deleted or replaced."""
        for suffix in files.SEGMENT_SUFFIXES:
            self._forget((folder, base_offset, suffix))

    def forget_folder(self, folder: str) -> None:
        """Drop every file of a folder."""
        for key in [key for key in list(self._by_key) if key[0] == folder]:
            self._forget(key)

    def forget_deleted(self) -> None:
        """Drop the files that have no name any more: as long as they are open, they take their
        space on the disk."""
        for key, file in list(self._files.items()):
            with suppress(OSError):
                if os.fstat(file.fd).st_nlink == 0:
                    self._forget(key)

    def _forget(self, key: Key) -> None:
        self._files.pop(key, None)
        self._by_key.pop(key, None)

    def statistics(self) -> tuple[int, int]:
        """(files in the cache, files open because of it, those in flight included)."""
        return len(self._files), len(self._alive)


def default_capacity() -> int:
    """Files that one cache may have under the limit of this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CAPACITY if limit == resource.RLIM_INFINITY else min(CAPACITY, limit // CAPACITY_SHARE)
