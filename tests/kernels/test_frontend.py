"""The shortcuts of the compiler's frontend leave the machine code as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import ir, targetconfig
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.compiler import Flags

from kbroker.kernels import cache, frontend
from kbroker.kernels.row import Constants
from tests.kernels.fresh import fresh_environment

PACKAGE = Path(cache.__file__).parent.parent
COMPILE = """
import hashlib, sys
from kbroker.kernels import frontend
if sys.argv[1] == "without":
    frontend.install = lambda: None
    frontend.NOT_NEEDED = frozenset()
    frontend.take_numbers = lambda code: None
from kbroker.kernels import warm
warm.modules = lambda: ["kbroker.kernels.crc32c", "kbroker.kernels.search", "kbroker.ipc.sensor_kernel"]
for kernel in warm.declare():
    kernel.make()
    print(kernel.py_func.__name__, hashlib.sha256(warm.compiled(kernel).code).hexdigest())
"""


@pytest.mark.slow
def test_kernels_compiled_with_and_without_shortcuts_are_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for way in ("with", "without"):
        environment = fresh_environment(tmp_path / way) | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", COMPILE, way],
            env=environment, cwd=PACKAGE.parent, text=True, capture_output=True, check=True,
        )  # fmt: skip
        found.append(done.stdout)
    assert found[0].count("\n") >= 5
    assert found[0] == found[1]


def test_options_are_equal_when_all_of_them_are_set_or_not() -> None:
    frontend.install()
    one, other = Flags(), Flags()
    assert one == other
    other.no_compile = False  # its default
    assert one == other
    assert hash(one) == hash(other)
    other.no_compile = True
    assert one != other
    assert one != "flags"


def test_variables_are_found_wherever_they_are() -> None:
    frontend.install()
    place = ir.Loc("file", 1)
    names = [ir.Var(None, f"v{number}", place) for number in range(5)]
    call = ir.Expr.call(names[0], [names[1], names[2]], {"key": names[3]}, place)
    assert {one.name for one in call.list_vars()} >= {"v0", "v1", "v2"}
    assert {one.name for one in ir.Assign(call, names[4], place).list_vars()} >= {"v0", "v1", "v2", "v4"}
    assert ir.Jump(3, place).list_vars() == []
    assert isinstance(Flags(), targetconfig.TargetConfig)


class Limit(metaclass=Constants):
    """Numbers as kernels have them."""

    ROWS = 7


WORDS = 3


def _bounded(number: int) -> int:
    for _ in range(WORDS):
        if number > Limit.ROWS:
            number -= Limit.ROWS
    return number


def test_numbers_of_classes_and_modules_are_literals_in_byte_code() -> None:
    code = ByteCode(FunctionIdentity.from_function(_bounded))
    frontend.take_numbers(code)
    steps = list(code.table.values())
    assert [one.opname for one in steps if one.opname in ("LOAD_ATTR", "CACHE")] == []
    literals = [code.co_consts[one.arg] for one in steps if one.opname == "LOAD_CONST"]
    assert sorted(number for number in literals if number is not None) == [3, 7, 7]
    assert set(code.labels) <= set(code.table)  # every jump still has its target
    assert all(one.next in code.table for one in steps if not one.is_terminator)
