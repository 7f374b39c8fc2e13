"""Checks the records of small compressed batches in the kernel, like those of uncompressed ones.

Only a batch without any error is accepted here. Batches with errors, and longer ones, are left to
`record_checks`, which knows Kafka's errors.
"""

from kbroker.kernels.codec_libraries import gzip_member, zstd_frame
from kbroker.kernels.jit import inlined
from kbroker.kernels.lz4 import lz4_frame
from kbroker.kernels.memory import load_i32_be, load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.snappy import snappy
from kbroker.net.produce import partial_record_kernel as pr
from kbroker.net.rows import Context, PartialRecord
from kbroker.net.rows.connection_kernel import CODEC_WEIGHT, GZIP_WEIGHT, spend
from kbroker.protocol import batch_layout as rb

GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
MAX_BYTES = 32 << 10  # compressed
PLAIN_BYTES = 128 << 10  # decompressed: delays other clients by a fifth of a millisecond
GZIP_PLAIN_BYTES = 64 << 10  # takes as long


@inlined
def decompress(cx: int, source: int, size: int, codec: int) -> int:
    """Decompress the records at an address to Context.PLAIN; their size, -1: too large, or Python
    must check."""
    plain = get(cx, Context.PLAIN)
    if size > MAX_BYTES:
        return -1
    if codec == LZ4:
        return lz4_frame(source, size, plain, PLAIN_BYTES)
    if codec == SNAPPY:
        return snappy(source, size, plain, PLAIN_BYTES)
    if codec == ZSTD:
        return zstd_frame(get(cx, Context.LIBRARIES), source, size, plain, PLAIN_BYTES)
    if codec == GZIP:
        return gzip_member(get(cx, Context.LIBRARIES), source, size, plain, GZIP_PLAIN_BYTES)
    return -1


@inlined
def records_are_valid(
    cx: int, address: int, length: int, codec: int, need_keys: bool, oldest: int, newest: int
) -> bool:
    """Whether the records of the compressed batch at an address are known to be valid; if so sets
    Context.WALK_MAX_TIMESTAMP.

    oldest, newest: the timestamps allowed; -1 (no timestamp) always is."""
    plain = get(cx, Context.PLAIN)
    size = length - rb.RECORDS
    found = decompress(cx, address + rb.RECORDS, size, codec)
    cost = found
    if found < 0:  # after reading all that there is room for, or nothing
        cost = 0 if size > MAX_BYTES else (GZIP_PLAIN_BYTES if codec == GZIP else PLAIN_BYTES)
    spend(cx, cost * (GZIP_WEIGHT if codec == GZIP else CODEC_WEIGHT))
    if found < 0:
        return False
    walk = get(cx, Context.PARTIAL)
    for word in range(PartialRecord.WORDS):
        put(walk, word, 0)
    put(walk, PartialRecord.LEFT, load_i32_be(address + rb.RECORD_COUNT))
    put(walk, PartialRecord.BASE_TIMESTAMP, load_i64_be(address + rb.BASE_TIMESTAMP))
    put(walk, PartialRecord.OLDEST, oldest)
    put(walk, PartialRecord.NEWEST, newest)
    put(walk, PartialRecord.NEED_KEYS, 1 if need_keys else 0)
    put(walk, PartialRecord.ORDERED, 1)
    put(walk, PartialRecord.LARGEST, -1)
    if (
        pr.continue_walk(walk, plain, found) != found
        or not pr.at_end(walk)
        or get(walk, PartialRecord.REFUSED)
    ):
        return False
    put(cx, Context.WALK_MAX_TIMESTAMP, get(walk, PartialRecord.LARGEST))
    return True
