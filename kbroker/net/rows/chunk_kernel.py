"""Chunks of the arena: small frames share a chunk by a bump pointer, a large frame gets a run of
its own.

A chunk is free again when nothing refers to it: it is not the current chunk and holds no unhandled
bytes, no requests that wait for their appends, and no frames that Python has not copied. Free
chunks form a stack, so that those in the processor's cache are reused first.
"""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i64, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.rows import Chunk, Context

ALIGNMENT = 64
SMALL_BYTES = 65536


@inlined
def chunk_row(cx: int, chunk: int) -> int:
    """Address of a chunk's row."""
    return get(cx, Context.CHUNKS) + chunk * Chunk.STRIDE


@inlined
def hold(cx: int, chunk: int) -> None:
    """One more reference."""
    row = chunk_row(cx, chunk)
    put(row, Chunk.REFS, get(row, Chunk.REFS) + 1)


@inlined
def release(cx: int, chunk: int) -> None:
    """One reference less; the last one frees the chunk and the run it starts."""
    row = chunk_row(cx, chunk)
    refs = get(row, Chunk.REFS) - 1
    put(row, Chunk.REFS, refs)
    if refs == 0:
        count = get(cx, Context.FREE_CHUNK_COUNT)
        stack = get(cx, Context.FREE_CHUNKS)
        run = get(row, Chunk.RUN)
        for i in range(run - 1, -1, -1):
            put(chunk_row(cx, chunk + i), Chunk.RUN, 0)
            store_i64(stack + 8 * count, chunk + i)
            count += 1
        put(cx, Context.FREE_CHUNK_COUNT, count)


@inlined
def take_chunk(cx: int) -> int:
    """A free chunk with one reference, -1 when there is none."""
    count = get(cx, Context.FREE_CHUNK_COUNT) - 1
    if count < 0:
        return -1
    put(cx, Context.FREE_CHUNK_COUNT, count)
    put(cx, Context.FREE_CHUNK_LOW, min(count, get(cx, Context.FREE_CHUNK_LOW)))
    chunk = load_i64(get(cx, Context.FREE_CHUNKS) + 8 * count)
    row = chunk_row(cx, chunk)
    put(row, Chunk.REFS, 1)
    put(row, Chunk.RUN, 1)
    put(row, Chunk.TOUCHED, 1)
    return chunk


@inlined
def take_run(cx: int, length: int) -> int:
    """The first of ``length`` neighbouring free chunks, taken from the arena's end; -1 when there
    are none."""
    free = get(cx, Context.FREE_CHUNK_COUNT)
    if free < length:
        return -1
    found = 0
    first = get(cx, Context.CHUNK_COUNT) - 1
    while first >= 0:
        row = chunk_row(cx, first)
        found = found + 1 if get(row, Chunk.REFS) == 0 and _is_free(cx, first) else 0
        if found == length:
            break
        first -= 1
    if found < length:
        return -1
    stack = get(cx, Context.FREE_CHUNKS)
    kept = 0
    for i in range(free):
        chunk = load_i64(stack + 8 * i)
        if chunk < first or chunk >= first + length:
            store_i64(stack + 8 * kept, chunk)
            kept += 1
    put(cx, Context.FREE_CHUNK_COUNT, kept)
    put(cx, Context.FREE_CHUNK_LOW, min(kept, get(cx, Context.FREE_CHUNK_LOW)))
    for i in range(length):
        row = chunk_row(cx, first + i)
        put(row, Chunk.RUN, -1)
        put(row, Chunk.TOUCHED, 1)
    row = chunk_row(cx, first)
    put(row, Chunk.RUN, length)
    put(row, Chunk.REFS, 1)
    return first


@inlined
def _is_free(cx: int, chunk: int) -> bool:
    return get(chunk_row(cx, chunk), Chunk.RUN) == 0


@inlined
def reserve(cx: int, size: int) -> int:
    """Arena offset of ``size`` contiguous bytes, whose chunk gets one more reference; -1 when the
    arena is full.

    The chunk is ``offset // Context.CHUNK_BYTES``; for a run, its first.
    """
    chunk_bytes = get(cx, Context.CHUNK_BYTES)
    if size > chunk_bytes:
        chunk = take_run(cx, -(-size // chunk_bytes))
        return chunk * chunk_bytes if chunk >= 0 else -1
    if not ensure_room(cx, size):
        return -1
    offset = get(cx, Context.BUMP)
    put(cx, Context.BUMP, offset + -(-size // ALIGNMENT) * ALIGNMENT)
    hold(cx, get(cx, Context.CURRENT))
    return offset


@inlined
def is_short(cx: int, size: int) -> bool:
    """Whether a request of this size would take chunks that are reserved for small requests."""
    left = get(cx, Context.FREE_CHUNK_COUNT) - -(-size // get(cx, Context.CHUNK_BYTES))
    return size > SMALL_BYTES and left < get(cx, Context.CHUNK_COUNT) // Chunk.RESERVED_SHARE


@inlined
def ensure_room(cx: int, size: int) -> bool:
    """Make the current chunk have ``size`` bytes after the bump pointer (size <=
    Context.CHUNK_BYTES)."""
    chunk_bytes = get(cx, Context.CHUNK_BYTES)
    current = get(cx, Context.CURRENT)
    if current >= 0:
        if get(chunk_row(cx, current), Chunk.REFS) == 1:
            put(
                cx, Context.BUMP, current * chunk_bytes
            )  # the chunk is unused: start at its beginning, which is in the cache
        if get(cx, Context.BUMP) + size <= (current + 1) * chunk_bytes:
            return True
    fresh = take_chunk(cx)
    if fresh < 0:
        return False
    if current >= 0:
        release(cx, current)
    put(cx, Context.CURRENT, fresh)
    put(cx, Context.BUMP, fresh * chunk_bytes)
    return True


@kernel("int64(int64, int64)")
def reserve_bytes(cx: int, size: int) -> int:
    """``reserve``, for Python."""
    return reserve(cx, size)


@kernel("void(int64, int64)")
def release_chunk(cx: int, chunk: int) -> None:
    """``release``, for Python."""
    release(cx, chunk)
