"""The codecs of record batches: numbers as in the batch attributes, output of Apache Kafka's format.

snappy is written in the xerial framing that the Java client expects and read in it or raw; lz4 is the frame format.
Decompressing stops with ProtocolError once the output passes `max_bytes`, so a small bomb costs little.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame
import zstandard

from kbroker.protocol.schema import ProtocolError

MAX_BYTES: Final = 1 << 30
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
ZSTD_PIECE_BYTES: Final = 2048
"""Input taken at once: its output is bounded by 128 KiB for each 4 bytes."""
LZ4_MOST: Final = 255
"""A byte of lz4 stands for no more bytes than this."""
LZ4_FLAGS: Final = 4  # byte of a frame
LZ4_CONTENT_SIZE: Final = 0x08
GZIP: Final = 31
"""zlib's window bits for the gzip container."""
_INT: Final = struct.Struct(">i")


class Codec(IntEnum):
    """Compression of a batch; the value is what the attributes hold."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """`level` is that of compression.{gzip,lz4,zstd}.level; None is the codec's own default."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            packer = zlib.compressobj(-1 if level is None else level, wbits=GZIP)
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return bytes(
                lz4.frame.compress(
                    data,
                    compression_level=0 if level is None else level,
                    block_linked=False,  # Kafka's reader takes independent blocks alone
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    store_size=False,
                )
            )
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(3 if level is None else level).compress(data)
    raise ProtocolError(f"there is no compression codec {codec}")


def decompress(codec: int, data: bytes | memoryview, max_bytes: int = MAX_BYTES) -> bytes | memoryview:
    """The records section of a batch in plain; for NONE the input itself."""
    if codec == Codec.NONE:
        return data
    if codec not in _DECOMPRESSORS:
        raise ProtocolError(f"there is no compression codec {codec}")
    try:
        return _DECOMPRESSORS[codec](data, max_bytes)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, EOFError, zstandard.ZstdError) as error:
        raise ProtocolError(f"{Codec(codec).name.lower()} data is damaged: {error}") from error


def _bounded(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise ProtocolError(f"decompressed records take more than the {max_bytes} bytes allowed")


def _decompress_gzip(data: bytes | memoryview, max_bytes: int) -> bytes:
    out = bytearray()
    rest = bytes(data)
    while rest:
        unpacker = zlib.decompressobj(GZIP)
        out += unpacker.decompress(rest, max_bytes + 1 - len(out))
        _bounded(len(out), max_bytes)
        if not unpacker.eof:
            raise ProtocolError("gzip data is truncated")
        rest = unpacker.unused_data
    return bytes(out)


def _compress_xerial(data: bytes) -> bytes:
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: bytes | memoryview, max_bytes: int) -> bytes:
    raw = bytes(data)
    if not raw.startswith(XERIAL_MAGIC):
        return _decompress_raw_snappy(raw, max_bytes, 0)
    out = bytearray()
    pos = len(XERIAL_HEADER)
    while pos < len(raw):
        if pos + _INT.size > len(raw):
            raise ProtocolError("snappy data is truncated")
        (size,) = _INT.unpack_from(raw, pos)
        pos += _INT.size
        if not 0 < size <= len(raw) - pos:
            raise ProtocolError(f"a snappy block of {size} bytes does not fit its batch")
        out += _decompress_raw_snappy(raw[pos : pos + size], max_bytes, len(out))
        pos += size
    return bytes(out)


def _decompress_raw_snappy(raw: bytes, max_bytes: int, before: int) -> bytes:
    size = shift = 0
    for byte in raw[:5]:  # the size that raw snappy starts with
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _bounded(before + size, max_bytes)
    return bytes(cramjam.snappy.decompress_raw(raw))


def _decompress_lz4(data: bytes | memoryview, max_bytes: int) -> bytes:
    said_size = (
        len(data) > LZ4_FLAGS and data[LZ4_FLAGS] & LZ4_CONTENT_SIZE
    )  # and would be given that much memory
    if len(data) * LZ4_MOST <= max_bytes and not said_size:
        whole: bytes = lz4.frame.decompress(data)  # five times as fast as with a bound that it can not pass
        return whole
    unpacker = lz4.frame.LZ4FrameDecompressor()
    out: bytes = unpacker.decompress(bytes(data), max_bytes + 1)
    _bounded(len(out), max_bytes)
    if not unpacker.eof:
        raise ProtocolError("lz4 data is truncated")
    return out


def _decompress_zstd(data: bytes | memoryview, max_bytes: int) -> bytes:
    raw = memoryview(data)
    out = bytearray()
    unpacker = None
    for start in range(0, len(raw), ZSTD_PIECE_BYTES):
        piece: bytes | memoryview = raw[start : start + ZSTD_PIECE_BYTES]
        while piece:
            if unpacker is None:
                unpacker = zstandard.ZstdDecompressor().decompressobj()
            out += unpacker.decompress(piece)
            _bounded(len(out), max_bytes)
            piece = b""
            if unpacker.eof:  # another frame may follow
                piece, unpacker = unpacker.unused_data, None
    if unpacker is not None:
        raise ProtocolError("zstd data is truncated")
    return bytes(out)


_DECOMPRESSORS: Final[Mapping[int, Callable[[bytes | memoryview, int], bytes]]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
