"""A bounded cache of open segment files, shared by all readers of a process."""

import os
from collections import OrderedDict
from contextlib import suppress
from weakref import WeakSet

from kbroker.log import files


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

    def __del__(self) -> None:
        if self.fd >= 0:
            with suppress(OSError):
                os.close(self.fd)


Key = tuple[str, int, str]


class OpenFiles:
    """LRU of OpenFile by (folder, base offset, suffix). Runs in: network processes, control, tools.
    Not thread-safe."""

    def __init__(self, capacity: int = 4096) -> None:
        self.capacity = capacity
        self._files: OrderedDict[Key, OpenFile] = OrderedDict()
        self._alive: WeakSet[OpenFile] = WeakSet()

    def get(self, folder: str, base_offset: int, suffix: str) -> OpenFile:
        """The open file; opens it when needed. Raises FileNotFoundError."""
        key = (folder, base_offset, suffix)
        found = self._files.get(key)
        if found is not None:
            self._files.move_to_end(key)
            return found
        found = OpenFile(files.path(folder, base_offset, suffix))
        self._files[key] = found
        self._alive.add(found)
        while len(self._files) > self.capacity:
            self._files.popitem(last=False)
        return found

    def known(self, folder: str, base_offset: int, suffix: str) -> OpenFile | None:
        """The file if it is in the cache."""
        found = self._files.get((folder, base_offset, suffix))
        if found is not None:
            self._files.move_to_end((folder, base_offset, suffix))
        return found

    def forget(self, folder: str, base_offset: int) -> None:
        """Drop a segment's files: it was deleted or replaced."""
        for suffix in files.SEGMENT_SUFFIXES:
            self._files.pop((folder, base_offset, suffix), None)

    def forget_folder(self, folder: str) -> None:
        """Drop every file of a folder."""
        for key in [key for key in self._files if key[0] == folder]:
            del self._files[key]

    def forget_deleted(self) -> None:
        """Drop the files that have no name any more: as long as they are open, they take their
        space on the disk."""
        for key, file in list(self._files.items()):
            with suppress(OSError):
                if os.fstat(file.fd).st_nlink == 0:
                    del self._files[key]

    def statistics(self) -> tuple[int, int]:
        """(files in the cache, files open because of it, those in flight included)."""
        return len(self._files), len(self._alive)
