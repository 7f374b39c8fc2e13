"""A small batch that is very large in plain, on a topic with another codec: recompressed in bounded
memory."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PLAIN_BYTES = 300 << 20
BOUND_KIB = 100 << 10
PROGRAM = """
import resource, sys
from kbroker.net.produce.record_checks import Rules, check
from kbroker.net.produce.check_kernel import FOREVER
from kbroker.protocol.compression import Codec
from tests.attack.bomb import bomb

codec, target, disordered = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "disordered"
small = bomb(codec, 1 << 20, disordered)
large = bomb(codec, int(sys.argv[4]), disordered)
rules = Rules("t-0", False, False, FOREVER, FOREVER, 1 << 20, target, 6)
check(small, rules, 1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
validation = check(large, rules, 1)
print(int(validation.error), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


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
