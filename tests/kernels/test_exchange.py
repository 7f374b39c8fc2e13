"""Processes that compile take parts from each other; what comes out works as if one had compiled
all of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core import types as numba_types

from kbroker.kernels import cache
from kbroker.kernels.exchange import Exchange, plain
from tests.kernels.fresh import fresh_environment
from tests.peer.program import program

types: Any = numba_types
PACKAGE = Path(cache.__file__).parent.parent
COMPILE = """
import sys
from pathlib import Path
from kbroker.kernels import jit, warm
jit.declare_only = True
from kbroker.kernels.compiler import Part
from kbroker.kernels.exchange import Exchange
from kbroker.kernels import crc32c
Part.exchange = Exchange(Path(sys.argv[1]), int(sys.argv[2]))
made = []
Part.compiled = staticmethod(lambda: made.append(1))
for kernel in jit.DECLARED:
    kernel.make()
assert crc32c.crc32c(b"123456789") == 0xE3069283
assert crc32c.crc32c(bytes(range(256)) * 99) == int(sys.argv[3])
print(len(made))
"""


def compiled_by(worker: int, folder: Path, tmp_path: Path) -> int:
    """Parts that a process with an empty cache of kernels compiled itself."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(folder), str(worker), str(_crc32c(bytes(range(256)) * 99))],
        env=fresh_environment(tmp_path / str(worker)), cwd=PACKAGE.parent,
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.slow
def test_a_part_is_compiled_by_one_of_two_processes_and_works_in_both(tmp_path: Path) -> None:
    folder = tmp_path / "exchange"
    folder.mkdir()
    assert compiled_by(0, folder, tmp_path) > 0
    assert compiled_by(1, folder, tmp_path) == 0


def test_a_name_is_claimed_by_one_and_free_again_after_it(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path, 0)
    for _ in range(2):
        with exchange.claimed("part"):
            (lock,) = tmp_path.glob("*.lock")
            taken = subprocess.run(["flock", "-n", str(lock), "true"], check=False)
            assert taken.returncode == 1
    assert subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 0


def test_the_claim_of_a_process_that_dies_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom kbroker.kernels.exchange import Exchange\n"
        "with Exchange(Path(sys.argv[1]), 1).claimed('part'):\n    print(flush=True)\n    time.sleep(600)"
    )
    with program(
        [sys.executable, "-c", code, str(tmp_path)], cwd=PACKAGE.parent, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        (lock,) = tmp_path.glob("*.lock")
        assert subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 1
        holder.kill()
    exchange = Exchange(tmp_path, 0)
    with exchange.claimed("part"):
        assert exchange.received("part", ()) is None


def test_types_that_differ_between_processes_are_not_exchanged() -> None:
    array = types.Array(types.int64, 1, "C")
    assert plain(array)
    assert plain(types.UniTuple(types.int64, 3))
    assert plain(types.Tuple((types.int64, array)))
    assert not plain(types.Module(os))
    assert not plain(types.Tuple((types.int64, types.Module(os))))
