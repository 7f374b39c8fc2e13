"""Inlined functions are compiled as parts of kernels: once for types, not for constants, without
code of their own."""

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np

from kbroker.kernels import cache
from kbroker.kernels.compiler import Kernel, KernelLibrary, Part, use_kernel_libraries
from kbroker.kernels.warm import FUNCTION, Progress, progress_line
from tests.kernels.fresh import fresh_environment

PACKAGE = Path(cache.__file__).parent.parent

use_kernel_libraries()


def _times(number: int, factor: int) -> int:
    return number * factor


def _sum(numbers: np.ndarray) -> int:
    total = 0
    for one in numbers:
        total += times(one, 3) + times(one, 4)
    return total


def _tripled(number: int) -> int:
    return times(number, 3)


times = Part(_times)
summed = Part(_sum)


@numba.njit  # type: ignore[untyped-decorator]
def called(numbers: np.ndarray) -> int:
    return summed(numbers)


def test_a_part_is_compiled_once_for_all_constants_and_holds_no_machine_code() -> None:
    assert called(np.arange(10)) == 45 * 7
    assert [str(one) for one in times.nopython_signatures] == ["(int64, int64) -> int64"]
    (result,) = times.overloads.values()
    assert isinstance(result.library, KernelLibrary)
    assert not result.library._finalized


def test_a_part_called_from_python_computes_the_same() -> None:
    assert times(6, 7) == 42
    assert summed(np.arange(3)) == 3 * 7


def test_an_array_passed_through_parts_is_neither_leaked_nor_freed_too_early() -> None:
    numbers = np.arange(10)
    before = sys.getrefcount(numbers)
    for _ in range(100):
        called(numbers)
    assert sys.getrefcount(numbers) == before


def test_a_kernel_takes_its_signature_and_no_other() -> None:
    double = Kernel(_times, "int64(int64, int64)")
    double._cache = numba.core.caching.NullCache()
    double.make()
    assert double(4, 2) == 8
    assert len(double.overloads) == 1
    try:
        double("four", 2)
    except TypeError:
        return
    raise AssertionError("a text was taken for a number")


def test_warm_compiles_in_processes_and_a_second_one_finds_all(tmp_path: Path) -> None:
    """With two small modules of kernels: all of them take too long here."""
    code = (
        "from kbroker.kernels import warm\n"
        "report = warm._report\n"
        "def reported(progress, ready):\n"
        "    report(progress, ready)\n"
        "    print(progress.share)\n"
        "warm._report = reported\n"
        "warm.modules = lambda: ['kbroker.kernels.crc32c', 'kbroker.ipc.producer_id_kernel']\n"
        "raise SystemExit(warm.main())"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=fresh_environment(tmp_path),
            cwd=PACKAGE.parent,
            text=True,
            capture_output=True,
            check=True,
        )
        for _ in range(2)
    ]
    reported = [one.stderr for one in done]
    assert done[0].stdout == "1.0\n"  # what it says of its progress ends at all
    assert not list(tmp_path.glob("kbroker/*/exchange"))
    assert "kernels: compiling" in reported[0]
    assert "kernels: ready in" in reported[0]
    assert "kernels are ready" in reported[1]


def test_progress_knows_what_is_left() -> None:
    progress = Progress([Kernel(_sum, "int64(int64[:])"), Kernel(_tripled, "int64(int64)")])
    assert progress.left_s(0.5) > 0
    assert progress.share == 0
    progress.take(bytes([FUNCTION]))  # both call it
    before = progress.left_s(1.0)
    progress.take(bytes([0]))
    assert 0 < progress.left_s(1.0) < before
    progress.take(bytes([1]))
    assert progress.left_s(1.0) < 1e-9
    assert progress.share == 1


def test_progress_is_a_line_in_a_file_and_a_bar_on_a_terminal() -> None:
    progress = Progress([Kernel(_sum, "int64(int64[:])")])
    assert progress_line(progress, 0.0, terminal=False) == "kernels: 0%\n"
    progress.take(bytes([FUNCTION]))
    assert 0 < progress.share < 1
    line = progress_line(progress, 3.0, terminal=True)
    assert line.startswith("\r\x1b[Kkernels: [#")
    assert line.endswith(" s left")
    progress.take(bytes([0]))
    assert progress_line(progress, 4.0, terminal=False).startswith("kernels: 100%")
