"""A batch that compresses to almost nothing."""

import struct
from collections.abc import Iterator

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.records import build_batch, write_varint
from kbroker.protocol.streamed_compression import compress_pieces


def bomb(codec: int, size: int, disordered: bool) -> bytes:
    """A batch of two records, each half of size bytes of zeros, made piece by piece."""

    def plain() -> Iterator[bytes]:
        for number in range(2):
            front = bytearray(b"\0\0")
            write_varint(front, 7 * number if disordered else number)
            front.append(1)
            write_varint(front, size // 2)
            head = bytearray()
            write_varint(head, len(front) + size // 2 + 1)
            yield bytes(head + front)
            for _ in range(size // 2 >> 19):
                yield bytes(1 << 19)
            yield b"\0"

    body = compress_pieces(codec, plain(), 1, 1 << 30)
    out = bytearray(build_batch([(None, b"", (), 1)] * 2)[: rb.RECORDS]) + body
    struct.pack_into(">i", out, rb.LENGTH, len(out) - rb.LENGTH_OVERHEAD)
    struct.pack_into(">h", out, rb.ATTRIBUTES, codec)
    struct.pack_into(">I", out, rb.CRC, crc32c(memoryview(out)[rb.ATTRIBUTES :]))
    return bytes(out)
