"""Groups of words that readers must see as a whole: a sequence counter around them (a sequence lock)."""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import fence, load_acquire, load_i64, store_release

Words = NDArray[np.int64]


@kernel("void(int64[::1], int64[::1], int64[::1])")
def write_group(words: Words, places: Words, values: Words) -> None:
    """Set words[places[n]] = values[n] as one group; words[0] is the counter. Only the group's owner calls it.

    A counter left odd by a crashed owner becomes even again."""
    counter = words.ctypes.data
    odd = load_i64(counter) | 1
    store_release(counter, odd)
    fence()
    for n in range(places.size):
        words[places[n]] = values[n]
    store_release(counter, odd + 1)


@kernel("int64(int64[::1], int64[::1], int64)")
def read_group(words: Words, copy: Words, attempts: int) -> int:
    """Copy words[:copy.size] as one group; 1, or 0 when a writer was always in the way (or died in between)."""
    counter = words.ctypes.data
    for _ in range(attempts):
        before = load_acquire(counter)
        if before & 1 == 0:
            for n in range(copy.size):
                copy[n] = words[n]
            fence()
            if load_acquire(counter) == before:
                return 1
    return 0
