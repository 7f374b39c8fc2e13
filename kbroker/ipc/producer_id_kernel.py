"""Producer ids for idempotent producers: a range in shared memory, from which network processes and
control take ids.

Control alone sets the range, when the last one is used up (`control/metadata/producer_ids.py`); ids
only grow.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import ProducerIds
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import fetch_add, load_acquire

NO_ID = -1


@inlined
def take_id(words: int) -> int:
    """A new id; NO_ID when the range is used up. The end is read before an id is taken: an id
    beyond it never belonged to this range, whatever control does meanwhile, and is lost."""
    end = load_acquire(words + 8 * ProducerIds.END)
    if load_acquire(words + 8 * ProducerIds.NEXT) >= end:
        return NO_ID
    taken = fetch_add(words + 8 * ProducerIds.NEXT, 1)
    return taken if taken < end else NO_ID


@kernel("int64(int64[::1])")
def take_producer_id(words: NDArray[np.int64]) -> int:
    """`take_id`, for Python."""
    return take_id(words.ctypes.data)
