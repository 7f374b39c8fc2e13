"""Reads a partition's slot as one consistent group, and requests a wake-up when the slot
advances."""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import fence, fetch_or, load_acquire, load_i64, store_i64
from kbroker.kernels.rows import get

TRIES = 1000  # a writer that died within its group would leave the counter odd


@inlined
def snapshot(slot: int, out: int) -> int:
    """Copy the words of a slot's row; 0 when its writer did not finish its update."""
    for _ in range(TRIES):
        before = load_acquire(slot + 8 * Slot.SEQUENCE)
        if before & 1 == 0:
            for word in range(Slot.WORDS):
                store_i64(out + 8 * word, load_i64(slot + 8 * word))
            fence()
            if load_i64(slot + 8 * Slot.SEQUENCE) == before:
                return 1
    return 0


@inlined
def ask_wake_up(slot: int, client: int) -> None:
    """Set this process's waiter bit; the caller then looks again."""
    word = slot + 8 * Slot.WAITERS
    bit = 1 << client
    if get(slot, Slot.WAITERS) & bit == 0:
        fetch_or(word, bit)
    fence()


@kernel("int64(int64, int64[::1])")
def read_slot(slot: int, out: NDArray[np.int64]) -> int:
    """``snapshot`` for Python; out: Slot.WORDS."""
    return snapshot(slot, out.ctypes.data)


@kernel("void(int64, int64)")
def announce_waiter(slot: int, client: int) -> None:
    """``ask_wake_up`` for Python."""
    ask_wake_up(slot, client)
