"""CRC-32C equals an independent implementation at every length and alignment, with and without the
instruction."""

import subprocess
import sys
from pathlib import Path

import crc32c as reference
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbroker.kernels import crc32c as ours

LENGTHS = [*range(70), 767, 768, 769, 1535, 4096, 12287, 12288, 12289, 100_003]


def test_the_check_value_of_rfc_3720_is_computed() -> None:
    assert ours.crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value


def test_every_length_and_alignment_has_the_checksum_of_the_library() -> None:
    data = np.random.default_rng(1).bytes(max(LENGTHS) + 8)
    for length in LENGTHS:
        for start in (0, 1, 7):
            piece = data[start : start + length]
            assert ours.crc32c(piece) == reference.crc32c(piece), (length, start)


@given(st.binary(max_size=3000))
def test_any_bytes_have_the_checksum_of_the_library(data: bytes) -> None:
    assert ours.crc32c(data) == reference.crc32c(data)


def test_plain_tables_agree_where_the_cpu_lacks_the_instruction(tmp_path: Path) -> None:
    script = (
        "from kbroker.kernels import jit\n"
        "jit.cpu_has = lambda feature: False\n"
        "import os, crc32c as reference\n"
        "from kbroker.kernels import crc32c as ours\n"
        "assert not ours.X86 and not ours.ARM\n"
        "for n in (0, 1, 7, 8, 9, 63, 1000, 20000):\n"
        "    data = os.urandom(n)\n"
        "    assert ours.crc32c(data) == reference.crc32c(data), n\n"
    )
    # its own cache: the on-disk one holds the version with the instruction
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"NUMBA_CACHE_DIR": "", "NUMBA_DISABLE_JIT": "0", "PATH": "", "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
