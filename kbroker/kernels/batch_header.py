"""The header of a record batch at an address: its size, and whether all of it is there."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i8, load_i32_be, load_i64_be
from kbroker.protocol import batch_layout as b

MIN_LEGACY_RECORD = 14  # a record of format 0 without its offset and length: less is damage in every format
TO_MAGIC = b.MAGIC + 1
NO_BATCH = -1


@inlined
def batch_bytes(address: int) -> int:
    """Size of a batch, with its base offset and length."""
    return load_i32_be(address + b.LENGTH) + b.LENGTH_OVERHEAD


@inlined
def last_offset(address: int) -> int:
    """Last offset of a batch."""
    return load_i64_be(address + b.BASE_OFFSET) + load_i32_be(address + b.LAST_OFFSET_DELTA)


@inlined
def whole_batch(address: int, left: int, minimum: int) -> int:
    """Size of the batch at an address of which ``left`` bytes are there: 0 when it ends beyond
    them, NO_BATCH for one of less than ``minimum`` bytes."""
    if left < b.LENGTH_OVERHEAD:
        return 0
    size = batch_bytes(address)
    if size < minimum:
        return NO_BATCH
    return size if size <= left else 0


@inlined
def whole_batch_of_any_format(address: int, left: int) -> int:
    """As `whole_batch`, for batches of clients. Kafka: ByteBufferLogInputStream.nextBatch."""
    size = whole_batch(address, left, MIN_LEGACY_RECORD + b.LENGTH_OVERHEAD)
    if size == NO_BATCH or left < TO_MAGIC:
        return min(size, 0)
    magic = load_i8(address + b.MAGIC)
    return NO_BATCH if magic < 0 or magic > b.MAGIC_V2 else size
