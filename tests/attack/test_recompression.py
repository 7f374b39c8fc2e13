"""A small batch that is very large in plain, on a topic with another codec: recompressed in bounded
memory."""

import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.records import build_batch, write_varint
from kbroker.protocol.streamed_compression import compress_pieces

pytestmark = pytest.mark.slow

PLAIN_BYTES = 300 << 20
BOUND_KIB = 100 << 10
PROGRAM = """
import resource, sys
from kbroker.net.produce.record_checks import Rules, check
from kbroker.net.produce.check_kernel import FOREVER
from kbroker.protocol.compression import Codec
from tests.attack.test_recompression import bomb

codec, target, disordered = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "disordered"
small = bomb(codec, 1 << 20, disordered)
large = bomb(codec, int(sys.argv[4]), disordered)
rules = Rules("t-0", False, False, FOREVER, FOREVER, 1 << 20, target, 6)
check(small, rules, 1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
verdict = check(large, rules, 1)
print(int(verdict.error), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


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


@pytest.mark.parametrize(
    ("codec", "target", "order", "error"),
    [
        (4, 3, "ordered", 10),  # MESSAGE_TOO_LARGE: lz4 makes 1.2 MB of it
        (4, 1, "ordered", 0),
        (4, 1, "disordered", 0),
        (1, 4, "ordered", 0),
        (4, 0, "ordered", 10),
    ],
)
def test_a_bomb_is_recompressed_in_bounded_memory(codec: int, target: int, order: str, error: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(codec), str(target), order, str(PLAIN_BYTES)],
        capture_output=True,
        text=True,
        check=True,
    )
    found, grown_kib = map(int, ran.stdout.split())
    assert (found, grown_kib < BOUND_KIB) == (error, True), f"{grown_kib} KiB, error {found}"
