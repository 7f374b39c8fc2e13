"""Processes that compile take parts from each other; what comes out works as if one had compiled
all of it."""

import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from numba.core import types as numba_types

from kbroker.kernels import cache
from kbroker.kernels.exchange import Exchange, plain, read, spelled
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


@pytest.mark.parametrize(
    "kind",
    [
        types.int64,
        types.uint8,
        types.float64,
        types.boolean,
        types.none,
        types.literal(5),
        types.literal(True),
        types.UniTuple(types.int64, 3),
        types.Tuple((types.int64, types.Tuple((types.boolean, types.literal(5))))),
    ],
    ids=str,
)
def test_the_type_of_a_result_is_exchanged_as_data(kind: Any) -> None:
    text = msgspec.msgpack.decode(msgspec.msgpack.encode(spelled(kind)))
    assert isinstance(text, str | list)
    assert read(text) == kind


@pytest.mark.parametrize(
    "kind",
    [types.Module(os), types.Tuple((types.int64, types.Module(os))), types.Array(types.int64, 1, "C")],
    ids=str,
)
def test_other_types_are_not_exchanged(kind: Any) -> None:
    assert spelled(kind) is None


def test_a_pickle_is_no_part_and_runs_nothing(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "run"),)

    name = "part"
    (tmp_path / hashlib.sha256(name.encode()).hexdigest()).write_bytes(pickle.dumps(Attack()))
    with pytest.raises(msgspec.MsgspecError):
        Exchange(tmp_path, 0).received(name, ())
    assert not (tmp_path / "run").exists()
