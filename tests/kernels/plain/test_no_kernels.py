"""KBROKER_NO_KERNELS=1: kernels are their Python functions, and a bug in one shows where it is."""

import os
import re
import subprocess
import sys
from pathlib import Path

from kbroker.kernels.plain import NO_KERNELS
from kbroker.kernels.plain.libc import CHECKS, WITHOUT_POINTERS

ROOT = Path(__file__).parents[3]
ROOMS = """
import sys, types
import numpy as np
from kbroker.ipc.layout import Slot
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import copy, fetch_add, load_acquire, load_i64, store_i64

slots = Slot.table(2)

def kernel_in(module, body):
    made = types.ModuleType(module)
    made.__dict__.update(globals() | {"__name__": module})
    exec(body, made.__dict__)
    return made.__dict__
"""
STORE = """
@inlined
def set_word(row, word, value):
    store_i64(row + 8 * word, value)

@kernel("void(int64[:, ::1], int64, int64)")
def change(table, row, word):
    set_word(table.ctypes.data + Slot.STRIDE * row, word, 1)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ROOMS + code], cwd=ROOT, env=os.environ | {NO_KERNELS: "1"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def fails_with(code: str, *parts: str) -> None:
    done = run(code)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert all(part in last for part in parts), last


def test_nothing_is_compiled() -> None:
    done = run(
        "from kbroker.net import pump_kernel; print('numba' in sys.modules, pump_kernel.pump.__wrapped__)"
    )
    assert done.stdout.startswith("False <function pump"), done.stderr


def test_a_store_beyond_a_table_names_kernel_and_table() -> None:
    fails_with(
        f"kernel_in('kbroker.io.made', {STORE!r})['change'](slots, 2, 0)",
        "kernel kbroker.io.made.change, at kbroker.io.made:4 (set_word), would write 8 bytes at",
        "of Slot",
    )


def test_a_store_to_a_word_of_another_process_names_the_field() -> None:
    made = f"change = kernel_in('kbroker.net.made', {STORE!r})['change']\n"
    assert run(made + "change(slots, 1, Slot.WAITERS)").returncode == 0
    fails_with(
        made + "change(slots, 1, Slot.LOG_END)",
        "WrongWriter: kernel kbroker.net.made.change, at kbroker.net.made:4 (set_word), writes Slot.LOG_END "
        "of row 1 as network; its writer is io",
    )


def test_an_assignment_in_python_is_checked_too() -> None:
    keys = [
        "[1, Slot.{}]",
        "[:, Slot.{}]",
        "[[0, 1], Slot.{}]",
        "[1][Slot.{}]",
        "[0]",
        "[:]",
        "[0][Slot.{}:]",
    ]
    done = run(
        f"""
from kbroker.kernels.plain.writers import WrongWriter
for key in {keys!r}:
    for word in 'STATE', 'FLAGS':
        try:
            kernel_in('kbroker.io.made', 'slots' + key.format(word) + ' = 1')
        except WrongWriter as wrong:
            assert str(wrong).endswith('as io; its writer is control'), wrong
            print(word, key)
"""
    )
    refused = [f"{word} {key}" for key in keys for word in ("STATE", "FLAGS")]
    allowed = [f"STATE {key}" for key in keys[:4]]
    assert done.stdout.splitlines() == [one for one in refused if one not in allowed], done.stderr


def test_memory_of_an_array_that_is_gone_is_refused() -> None:
    fails_with("address = np.zeros(4096, np.int64).ctypes.data\nload_i64(address)", "would read 8 bytes")


def test_a_misaligned_atomic_is_refused() -> None:
    fails_with("load_acquire(slots.ctypes.data + 4)", "needs an address that 8 divides")


def test_a_copy_of_overlapping_bytes_is_refused() -> None:
    fails_with("copy(slots.ctypes.data + 8, slots.ctypes.data, 16)", "between addresses that overlap")


def test_a_wrong_argument_is_refused_as_by_a_compiled_kernel() -> None:
    made = f"change = kernel_in('kbroker.io.made', {STORE!r})['change']\n"
    fails_with(made + "change(slots, 1.5, 0)", "TypeError")
    fails_with(made + "change(slots[0], 1, 0)", "TypeError: not an array of int64 with 2 dimensions")


def test_two_processes_add_to_one_word_without_losing_any() -> None:
    done = run(
        """
import os
from kbroker.ipc.shared import Region
region = Region(4096)
child = os.fork()
for _ in range(2000):
    fetch_add(region.address, 1)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(load_i64(region.address))
"""
    )
    assert done.stdout == "4000\n", done.stderr


def test_every_c_function_of_kernels_says_what_memory_it_touches() -> None:
    called = re.compile(r"= external\(\"(\w+)\"")
    sources = (ROOT / "kbroker").rglob("*.py")
    names = {name for source in sources for name in called.findall(source.read_text())}
    assert names - set(CHECKS) - WITHOUT_POINTERS == {"__errno_location"}
