"""Passes blocks of bytes from one process to another, in order: the bytes through shared memory,
notifications through a pipe.

A block costs its sender one copy and one small write; the sender only waits if the ring is full.
"""

import mmap
import os
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from pickle import PickleBuffer

import numpy as np

RING_BYTES = 32 << 20
WORD = struct.Struct("<qq")  # where a block begins, how many bytes it has
WORDS = 4096  # at the front of the memory: state of the receiver
WAIT_S = 0.001


class Ring:
    """The memory. Made by the sender, opened by the receiver under the same descriptor."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("history") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, WORDS + RING_BYTES)
        self._map = mmap.mmap(self.descriptor, WORDS + RING_BYTES)
        self.bytes = memoryview(self._map)[WORDS:]
        self._words = np.frombuffer(self._map, np.int64, 2)

    def close(self) -> None:
        """The descriptor; the memory stays until no process maps it."""
        os.close(self.descriptor)

    @property
    def taken(self) -> int:
        """Number of blocks that the receiver has finished."""
        return int(self._words[0])

    @property
    def cpu_ns(self) -> int:
        """User + system time of the receiver's process."""
        return int(self._words[1])

    def report(self, taken: int, cpu_ns: int) -> None:
        self._words[1] = cpu_ns
        self._words[0] = taken


class Sender:
    """Owner: the sender; used by one thread. Raises BrokenPipeError when the receiver is gone."""

    def __init__(self, ring: Ring, pipe: int) -> None:
        self._ring = ring
        self._pipe = pipe
        self._pending: deque[tuple[int, int]] = deque()  # where blocks begin and end
        self._sent = 0
        self._head = 0

    def send(self, parts: Sequence[bytes | PickleBuffer], alive: Callable[[], bool]) -> None:
        """One block of these parts. Raises ValueError for one that never fits."""
        views = [memoryview(part).cast("B") for part in parts]
        sizes = struct.pack(f"<{len(views) + 1}q", len(views), *map(len, views))
        views.insert(0, memoryview(sizes))
        size = sum(len(view) + -len(view) % 8 for view in views)
        if size >= RING_BYTES:
            raise ValueError(f"a block of {size} bytes is larger than the ring")
        while (begin := self._room(size)) < 0:
            if not alive():
                raise BrokenPipeError
            time.sleep(WAIT_S)
        at = begin
        for view in views:
            self._ring.bytes[at : at + len(view)] = view
            at += len(view) + -len(view) % 8
        self._pending.append((begin, at))
        self._head = at
        self._sent += 1
        os.write(self._pipe, WORD.pack(begin, size))

    def _room(self, size: int) -> int:
        """The position at which a block may begin; -1: nowhere yet."""
        waiting = self._sent - self._ring.taken
        while len(self._pending) > waiting:
            self._pending.popleft()
        if not self._pending:
            return 0  # the same memory again, which is warm
        tail = self._pending[0][0]
        if self._head > tail:
            if self._head + size <= RING_BYTES:
                return self._head
            return 0 if size < tail else -1
        return self._head if self._head + size < tail else -1


class Receiver:
    """Owner: the receiver."""

    def __init__(self, ring: Ring, pipe: int) -> None:
        self._ring = ring
        self._pipe = pipe
        self._taken = 0
        self._poll = select.poll()  # select.select knows no descriptor above 1,023
        self._poll.register(pipe, select.POLLIN)

    def ready(self, seconds: float) -> bool:
        """Whether `next` need not wait; waits so long for it."""
        return bool(self._poll.poll(seconds * 1000))

    def next(self) -> list[memoryview] | None:
        """The parts of the next block; None when the sender has closed its end, or is dead."""
        word = os.read(self._pipe, WORD.size)
        if len(word) < WORD.size:
            return None
        begin, size = WORD.unpack(word)
        block = memoryview(bytes(self._ring.bytes[begin : begin + size]))
        self._taken += 1
        self._ring.report(self._taken, time.process_time_ns())
        (count,) = struct.unpack_from("<q", block)
        parts, at = [], 8 + 8 * count
        for length in struct.unpack_from(f"<{count}q", block, 8):
            parts.append(block[at : at + length])
            at += length + -length % 8
        return parts
