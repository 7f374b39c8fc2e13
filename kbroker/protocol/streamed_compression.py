"""Compression of a records section that comes piece by piece, for batches too large to be held in
plain.

The formats are those of `compression.compress`; what is held is a piece and what was compressed so
far.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import Final, Protocol

import cramjam
import lz4.frame
import zstandard

from kbroker.protocol.compression import GZIP, LZ4_FAST_LEVEL, XERIAL_BLOCK_BYTES, XERIAL_HEADER, Codec
from kbroker.protocol.schema import ProtocolError

_INT: Final = struct.Struct(">i")


class TooLarge(Exception):
    """Compressed, the records take more bytes than are allowed."""


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes:
        """The output that is ready after more input."""

    def flush(self) -> bytes:
        """The rest of it."""


class _Plain:
    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Xerial:
    def __init__(self) -> None:
        self._out = bytearray(XERIAL_HEADER)
        self._rest = b""

    def compress(self, data: bytes) -> bytes:
        plain = self._rest + data
        whole = len(plain) - len(plain) % XERIAL_BLOCK_BYTES
        self._pack(plain[:whole])
        self._rest = plain[whole:]
        return self._take()

    def flush(self) -> bytes:
        self._pack(self._rest)
        return self._take()

    def _pack(self, plain: bytes) -> None:
        for start in range(0, len(plain), XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(plain[start : start + XERIAL_BLOCK_BYTES]))
            self._out += _INT.pack(len(block)) + block

    def _take(self) -> bytes:
        out, self._out = bytes(self._out), bytearray()
        return out


class _Lz4:
    def __init__(self, level: int | None) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor(
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            compression_level=0 if level in (None, LZ4_FAST_LEVEL) else level,
        )
        self._head = bytes(self._frame.begin())

    def compress(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        return self._head + bytes(self._frame.flush())


def _packer(codec: int, level: int | None) -> _Packer:
    match codec:
        case Codec.NONE:
            return _Plain()
        case Codec.GZIP:
            return zlib.compressobj(-1 if level is None else level, wbits=GZIP)
        case Codec.SNAPPY:
            return _Xerial()
        case Codec.LZ4:
            return _Lz4(level)
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(3 if level is None else level).compressobj()
    raise ProtocolError(f"there is no compression codec {codec}")


def compress_pieces(
    codec: int, plain: Iterable[bytes | memoryview], level: int | None, max_bytes: int
) -> bytearray:
    """The pieces as one section in the codec; TooLarge as soon as it has more than max_bytes."""
    packer, out = _packer(codec, level), bytearray()
    for piece in plain:
        out += packer.compress(bytes(piece))
        if len(out) > max_bytes:
            raise TooLarge
    out += packer.flush()
    if len(out) > max_bytes:
        raise TooLarge
    return out
