"""Groups of words that readers must see as a whole: a sequence counter around them (a sequence
lock)."""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import fence, load_i64, store_release

Words = NDArray[np.int64]


@kernel("void(int64[::1], int64[::1], int64[::1])")
def write_group(words: Words, places: Words, values: Words) -> None:
    """Set words[places[n]] = values[n] as one group; words[0] is the counter. Only the group's
    owner calls it.

    A counter left odd by a crashed owner becomes even again."""
    counter = words.ctypes.data
    odd = load_i64(counter) | 1
    store_release(counter, odd)
    fence()
    for n in range(places.size):
        words[places[n]] = values[n]
    store_release(counter, odd + 1)
