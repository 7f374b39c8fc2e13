"""Single-producer, single-consumer rings of one-line entries, and the sleep flag of a process.

Counts only grow; entry i lives at index i modulo capacity. The producer publishes its count with a
store-release after the entry; the consumer publishes its own after it has used the entry.

Wake-up protocol (no lost wake-up, no wake-up of a busy process): a consumer that finds nothing sets
its sleep flag, fences, checks the ring again, and only then blocks; a producer publishes,
fences, and writes the eventfd only when it exchanges the flag from 1 to 0.
"""

import os

import numpy as np

from kbroker.ipc.layout import AppendEntry, Ring
from kbroker.ipc.shared import Shared
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import write
from kbroker.kernels.memory import (
    exchange,
    fence,
    load_acquire,
    load_i64,
    store_i64,
    store_release,
)

HEAD, TAIL, HEADER = 8 * Ring.HEAD, 8 * Ring.TAIL, Ring.STRIDE
RING_ENTRY_BYTES = AppendEntry.STRIDE


def pack_acks(acks: int, timeout_ms: int) -> int:
    """The word AppendEntry.ACKS of a request with these acks (-1, 0, 1) and this timeout."""
    return timeout_ms << 16 | acks & 0xFFFF


def acks_of(packed: int) -> int:
    """The acks in a word of `pack_acks`."""
    return ((packed & 0xFFFF) ^ 0x8000) - 0x8000


def timeout_ms_of(packed: int) -> int:
    """The timeout in a word of `pack_acks`."""
    return packed >> 16


@inlined
def ring_free(ring: int, capacity: int) -> int:
    """Entries that the producer may still write."""
    return capacity - (load_i64(ring + HEAD) - load_acquire(ring + TAIL))


@inlined
def ring_ready(ring: int) -> int:
    """Entries that the consumer may read."""
    return load_acquire(ring + HEAD) - load_i64(ring + TAIL)


@inlined
def ring_entry(ring: int, capacity: int, number: int) -> int:
    """Address of entry ``number`` (a count, not an index)."""
    return ring + HEADER + (number & (capacity - 1)) * RING_ENTRY_BYTES


@inlined
def wake(process_line: int, event_fd: int, one: int) -> int:
    """Write the eventfd of a process when it sleeps. ``one``: address of an int64 that holds 1."""
    fence()
    if load_i64(process_line) != 0 and exchange(process_line, 0) != 0:
        write(event_fd, one, 8)
        return 1
    return 0


@kernel("int64(int64, int64, int64[::1])")
def ring_push(ring: int, capacity: int, entry: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    """Append one entry of 8 words; 0 when the ring is full. For rare messages, not the hot path."""
    if ring_free(ring, capacity) <= 0:
        return 0
    head = load_i64(ring + HEAD)
    address = ring_entry(ring, capacity, head)
    for i in range(8):
        store_i64(address + 8 * i, entry[i])
    store_release(ring + HEAD, head + 1)
    return 1


@kernel("int64(int64, int64, int64[:, ::1])")
def ring_take(ring: int, capacity: int, out: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> int:
    """Copy up to len(out) entries out and consume them; returns how many."""
    count = min(ring_ready(ring), out.shape[0])
    tail = load_i64(ring + TAIL)
    for n in range(count):
        address = ring_entry(ring, capacity, tail + n)
        for i in range(8):
            out[n, i] = load_i64(address + 8 * i)
    store_release(ring + TAIL, tail + count)
    return count


@kernel("int64(int64)")
def ring_length(ring: int) -> int:
    """Entries now in the ring."""
    return load_acquire(ring + HEAD) - load_acquire(ring + TAIL)


@kernel("void(int64)")
def _announce_sleep(process_line: int) -> None:
    store_i64(process_line, 1)
    fence()


@kernel("int64(int64)")
def _claim_wake(process_line: int) -> int:
    fence()
    return exchange(process_line, 0)


@kernel("void(int64)")
def mark_recovered(ring: int) -> None:
    """A new consumer has answered the entries that its predecessor left: publish the count from
    which on entries are its own."""
    store_release(ring + 8 * Ring.RECOVERED, load_i64(ring + TAIL))


class Sleeper:
    """Sleep flag and eventfd of the calling process. Runs in: network, IO, control."""

    def __init__(self, shared: Shared, process: int) -> None:
        self.line = int(shared.processes[process].ctypes.data)
        self.event_fd = shared.event_fds[process]
        self.interrupted = False

    def announce(self) -> None:
        """Set the sleep flag; the caller must check its rings again before it blocks."""
        _announce_sleep(self.line)

    def awake(self) -> None:
        """Clear the sleep flag: producers need not write the eventfd."""
        _claim_wake(self.line)

    def interrupt(self) -> None:
        """End the process's own sleep, from one of its threads or signal handlers."""
        self.interrupted = True
        os.eventfd_write(self.event_fd, 1)

    def take_interrupted(self) -> bool:
        """Whether ``interrupt`` was called since the last call."""
        interrupted, self.interrupted = self.interrupted, False
        return interrupted

    def clear(self) -> None:
        """Take the eventfd's count after a wake-up."""
        try:
            os.eventfd_read(self.event_fd)
        except BlockingIOError:
            pass


def wake_process(shared: Shared, process: int) -> None:
    """Wake a process if it sleeps, from Python."""
    if _claim_wake(int(shared.processes[process].ctypes.data)):
        os.eventfd_write(shared.event_fds[process], 1)
