"""The codecs of record batches: numbers as in the batch attributes, output of Apache Kafka's
format.

snappy is written in the xerial framing that the Java client expects and read in it or raw; lz4 is
the frame format. Data is decompressed in pieces, so a decompression bomb costs little.
"""

import struct
import threading
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame
import zstandard

from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import is_sliced

MAX_BYTES: Final = 1 << 30
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
PIECE_BYTES: Final = 1 << 20
SNAPPY_MAX_RATIO: Final = 22
"""A byte of snappy decompresses to no more bytes than this."""
ZSTD_MAX_HEADER: Final = 18
ZSTD_BLOCK_HEADER: Final = 3
ZSTD_REPEATED_BYTE: Final = 1
"""Type of a block that is one byte, to be repeated."""
ZSTD_CHECKSUM: Final = 4
ZSTD_BLOCKS_AT_ONCE: Final = 32
"""Headers of blocks that are read for one piece: if each is a frame, a tenth of a millisecond."""
ZSTD_KEPT_WINDOW: Final = 8 << 20
"""Decompressors keep the window of their largest frame."""
LZ4_MAX_RATIO: Final = 255
"""A byte of lz4 decompresses to no more bytes than this."""
LZ4_FAST_LEVEL: Final = 9  # the default takes the fast compressor, not that of level 9 (Lz4BlockOutputStream)
LZ4_FLAGS: Final = 4  # byte of a frame
LZ4_CONTENT_SIZE: Final = 0x08
GZIP: Final = 31
"""zlib's window bits for the gzip container."""
GZIP_MAGIC: Final = b"\x1f\x8b"
GZIP_FIRST_BYTES: Final = 512
"""Compressed bytes that zlib gets first of each member; each further call gets twice as many, up to
GZIP_MAX_BYTES."""
GZIP_MAX_BYTES: Final = 1 << 16
_INT: Final = struct.Struct(">i")
_contexts: Final = threading.local()


class TooLong(ProtocolError):
    """Decompressed records take more bytes than allowed."""


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
                    compression_level=0 if level in (None, LZ4_FAST_LEVEL) else level,
                    block_linked=False,  # Kafka's reader takes only independent blocks
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    store_size=False,
                )
            )
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(3 if level is None else level).compress(data)
    raise ProtocolError(f"there is no compression codec {codec}")


def decompress(codec: int, data: bytes | memoryview, max_bytes: int = MAX_BYTES) -> bytes | memoryview:
    """The decompressed records section of a batch; for NONE the input itself. Raises ProtocolError
    if it is damaged, TooLong if it is longer."""
    if codec == Codec.NONE:
        return data
    found = list(bounded_pieces(codec, data, max_bytes))
    return found[0] if len(found) == 1 else b"".join(found)


def bounded_pieces(
    codec: int, data: bytes | memoryview, max_bytes: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[bytes | memoryview]:
    """As `pieces`; TooLong when they have more than `max_bytes` together."""
    size = 0
    for piece in pieces(codec, data, piece_bytes, max_bytes):
        size += len(piece)
        if size > max_bytes:
            raise TooLong(f"decompressed records take more than the {max_bytes} bytes allowed")
        yield piece


def pieces(
    codec: int, data: bytes | memoryview, piece_bytes: int = PIECE_BYTES, max_bytes: int = MAX_BYTES
) -> Iterator[bytes | memoryview]:
    """The decompressed records section of a batch, `piece_bytes` or less at a time (snappy: block
    by block; a block of more than `max_bytes` is TooLong before it is decompressed).

    What follows the end of a gzip or lz4 stream is not read, as by Kafka's readers.
    ProtocolError when damaged."""
    if codec == Codec.NONE:
        view = memoryview(data)
        for start in range(0, len(view), piece_bytes):
            yield view[start : start + piece_bytes]
        return
    if codec not in _PIECES:
        raise ProtocolError(f"there is no compression codec {codec}")
    try:
        yield from _PIECES[codec](data, max_bytes if codec == Codec.SNAPPY else piece_bytes)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, EOFError, zstandard.ZstdError) as error:
        raise ProtocolError(f"{Codec(codec).name.lower()} data is damaged: {error}") from error


def _gzip_pieces(data: bytes | memoryview, piece_bytes: int) -> Iterator[bytes]:
    """zlib copies what a call leaves of its input, so it gets a little at a time: a batch may
    consist of very many members."""
    source = memoryview(data)
    pos = 0
    while True:
        unpacker, given_bytes = zlib.decompressobj(GZIP), GZIP_FIRST_BYTES
        while not unpacker.eof:
            given = source[pos : pos + given_bytes]
            piece = unpacker.decompress(given, piece_bytes)
            if not piece and len(given) == 0 and not unpacker.eof:
                raise ProtocolError("gzip data is truncated")
            left = unpacker.unused_data or unpacker.unconsumed_tail
            pos += len(given) - len(left)
            given_bytes = min(2 * given_bytes, GZIP_MAX_BYTES)
            yield piece
        if bytes(source[pos : pos + len(GZIP_MAGIC)]) != GZIP_MAGIC:
            return


def _compress_xerial(data: bytes) -> bytes:
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _snappy_pieces(data: bytes | memoryview, max_bytes: int) -> Iterator[bytes]:
    raw = bytes(data)
    if not raw.startswith(XERIAL_MAGIC):
        yield _unpack_snappy(raw, max_bytes)
        return
    pos = 0
    while pos < len(raw):
        if raw.startswith(XERIAL_MAGIC, pos):  # streams may follow each other
            pos += len(XERIAL_HEADER)
            continue
        if pos + _INT.size > len(raw):
            raise ProtocolError("snappy data is truncated")
        (size,) = _INT.unpack_from(raw, pos)
        pos += _INT.size
        if not 0 < size <= len(raw) - pos:
            raise ProtocolError(f"a snappy block of {size} bytes does not fit its batch")
        yield _unpack_snappy(raw[pos : pos + size], max_bytes)
        pos += size


def _unpack_snappy(raw: bytes, max_bytes: int) -> bytes:
    size = shift = 0
    for byte in raw[:5]:  # the size that raw snappy starts with
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > SNAPPY_MAX_RATIO * len(raw):  # and would be given that much memory
        raise ProtocolError(f"{len(raw)} bytes of snappy cannot stand for {size}")
    if size > max_bytes:
        raise TooLong(f"decompressed records take more than the {max_bytes} bytes allowed")
    return bytes(cramjam.snappy.decompress_raw(raw))


def _lz4_pieces(data: bytes | memoryview, piece_bytes: int) -> Iterator[bytes]:
    announced_size = (
        len(data) > LZ4_FLAGS and data[LZ4_FLAGS] & LZ4_CONTENT_SIZE
    )  # and would be given that much memory
    if len(data) * LZ4_MAX_RATIO <= piece_bytes and not announced_size:
        yield lz4.frame.decompress(data)  # a quarter of the time that small frames take with a bound
        return
    unpacker = lz4.frame.LZ4FrameDecompressor()
    piece: bytes = unpacker.decompress(data, piece_bytes)
    while piece:
        yield piece
        piece = b"" if unpacker.eof or unpacker.needs_input else unpacker.decompress(b"", piece_bytes)
    if not unpacker.eof:
        raise ProtocolError("lz4 data is truncated")


def _zstd_pieces(data: bytes | memoryview, piece_bytes: int) -> Iterator[bytes]:
    window = yield from _check_zstd_frames(memoryview(data))
    if window > ZSTD_KEPT_WINDOW or is_sliced():
        # Its window is freed with it; other work of this thread may decompress between two slices.
        unpacker = zstandard.ZstdDecompressor()
    else:
        if not hasattr(_contexts, "zstd"):
            _contexts.zstd = (
                zstandard.ZstdDecompressor()
            )  # making one takes four times as long as a small batch
        unpacker = _contexts.zstd
    reader = unpacker.stream_reader(data, read_across_frames=True)
    while piece := reader.read(piece_bytes):
        yield piece


def _check_zstd_frames(data: memoryview) -> Generator[bytes, None, int]:
    """Check that frames end where the data ends, as the reader does not detect a truncated frame
    (RFC 8878, section 3.1.1). Returns the largest window of a frame. Yields an empty piece after
    some blocks: a batch may have hundreds of thousands of empty ones."""
    pos = window = blocks = 0
    while pos < len(data):
        head = data[pos : pos + ZSTD_MAX_HEADER]
        parameters = zstandard.get_frame_parameters(head)
        checksum = parameters.has_checksum
        window = max(window, parameters.window_size)
        pos += zstandard.frame_header_size(head)
        last = False
        while not last:
            word = int.from_bytes(data[pos : pos + ZSTD_BLOCK_HEADER], "little")
            last = bool(word & 1) or pos >= len(data)
            pos += ZSTD_BLOCK_HEADER + (1 if word >> 1 & 3 == ZSTD_REPEATED_BYTE else word >> 3)
            blocks += 1
            if not blocks % ZSTD_BLOCKS_AT_ONCE:
                yield b""
        pos += ZSTD_CHECKSUM if checksum else 0
    if pos != len(data):
        raise ProtocolError("zstd data is truncated")
    return window


_PIECES: Final[Mapping[int, Callable[[bytes | memoryview, int], Iterator[bytes]]]] = {
    Codec.GZIP: _gzip_pieces,
    Codec.SNAPPY: _snappy_pieces,
    Codec.LZ4: _lz4_pieces,
    Codec.ZSTD: _zstd_pieces,
}
