"""Records of compressed batches, by Arrow's codecs."""

import zlib

import numpy as np
import pyarrow as pa

from spark_validation.segments import layout

XERIAL = b"\x82SNAPPY\x00"  # snappy in the frames of the Java library: this, two versions, then blocks with their sizes
XERIAL_BYTES = 16
STREAMED = {layout.LZ4: "lz4", layout.ZSTD: "zstd"}
DAMAGED = (pa.ArrowInvalid, OSError, zlib.error, ValueError, IndexError)
MAX_BYTES = 1 << 30


def unpack(codec: int, packed: memoryview) -> bytes | memoryview | None:
    """The plain records section of a batch; None when its data is damaged or its codec unknown."""
    try:
        if codec == layout.NONE:
            return packed
        if codec == layout.GZIP:
            return gunzip(packed)
        if codec == layout.SNAPPY:
            return unsnap(packed)
        if codec in STREAMED:
            with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), STREAMED[codec]) as stream:
                return memoryview(stream.read_buffer())
    except DAMAGED:
        return None
    return None


def gunzip(packed: memoryview) -> bytes:
    """All members of a gzip stream."""
    parts = []
    rest = bytes(packed)
    while rest:
        member = zlib.decompressobj(wbits=31)
        parts.append(member.decompress(rest))
        if not member.eof:
            raise ValueError("the stream ends within a member")
        rest = member.unused_data
    return b"".join(parts)


def unsnap(packed: memoryview) -> bytes:
    """One raw block, or the Java library's frames."""
    if bytes(packed[: len(XERIAL)]) != XERIAL:
        return block(packed)
    parts, at = [], XERIAL_BYTES
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4])
        parts.append(block(packed[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def block(packed: memoryview) -> bytes:
    """A raw snappy block, which starts with its plain size as a varint."""
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BYTES:
        raise ValueError(f"a snappy block of {size} bytes")
    return pa.decompress(np.frombuffer(packed, np.uint8), size, "snappy", asbytes=True)
