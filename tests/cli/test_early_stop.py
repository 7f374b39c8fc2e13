"""A stop while the first start compiles kernels: one clean end, and no compiler remains."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kbroker.kernels import packaged, plain
from tests.kernels.fresh import fresh_environment

ENDS_S = 120.0
BEFORE = "the kernels are not compiled yet"
WHILE = "kernels: compiling"


def descendants(pid: int) -> set[int]:
    """Processes below one."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return set()
    found = {int(one) for one in children}
    return found.union(*(descendants(one) for one in found)) if found else found


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def to_parent(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)


def to_group(pid: int, number: signal.Signals) -> None:
    os.killpg(pid, number)


def to_all(pid: int, number: signal.Signals) -> None:
    """Children first: they get it before the parent knows."""
    for one in [*descendants(pid), pid]:
        with suppress(ProcessLookupError):
            os.kill(one, number)


@contextmanager
def compiling(folder: Path, line: str) -> Iterator[subprocess.Popen[str]]:
    """A first start that has printed this line."""
    broker = subprocess.Popen(
        [sys.executable, "-m", "kbroker", "serve", "--override", f"log.dirs={folder / 'data'}",
         "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "kbroker.http.listen="],
        env=fresh_environment(folder), stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert broker.stderr is not None
        assert any(line in one for one in iter(broker.stderr.readline, ""))
        yield broker
    finally:
        with suppress(ProcessLookupError):
            os.killpg(broker.pid, signal.SIGKILL)
        broker.wait()


@pytest.mark.slow
@pytest.mark.skipif(plain.ACTIVE or bool(packaged.fitting()), reason="nothing is compiled here")
@pytest.mark.parametrize(
    ("line", "number", "send", "times"),
    [
        (BEFORE, signal.SIGTERM, to_all, 1),
        (BEFORE, signal.SIGINT, to_group, 1),
        (BEFORE, signal.SIGINT, to_parent, 5),
        (WHILE, signal.SIGTERM, to_parent, 1),
        (WHILE, signal.SIGINT, to_parent, 5),
        (WHILE, signal.SIGTERM, to_group, 5),
        (WHILE, signal.SIGINT, to_group, 1),
        (WHILE, signal.SIGTERM, to_all, 1),
        (WHILE, signal.SIGINT, to_all, 5),
    ],
)
def test_a_stop_while_kernels_compile_ends_all_with_code_0(
    tmp_path: Path, line: str, number: signal.Signals, send: Callable[[int, signal.Signals], None], times: int
) -> None:
    with compiling(tmp_path, line) as broker:
        compilers = descendants(broker.pid)
        for _ in range(times):
            with suppress(ProcessLookupError):
                send(broker.pid, number)
            time.sleep(0.003)
        assert broker.wait(ENDS_S) == 0
        deadline = time.monotonic() + ENDS_S
        while any(map(alive, compilers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [one for one in compilers if alive(one)]
        assert broker.stderr is not None
        assert not re.search("Traceback|Interrupt|ERROR|WARNING|ended", rest := broker.stderr.read()), rest
    # log dirs are tried before the compiler begins, and hold nothing but their lock's file
    assert {path.name for path in (tmp_path / "data").iterdir()} == {".lock"}
    assert not list(tmp_path.glob("kbroker/*/image-*"))


@pytest.mark.slow
@pytest.mark.skipif(plain.ACTIVE or bool(packaged.fitting()), reason="nothing is compiled here")
def test_a_first_start_ends_with_a_reason_when_its_compiler_is_killed(tmp_path: Path) -> None:
    with compiling(tmp_path, WHILE) as broker:
        (compiler,) = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
        os.kill(int(compiler), signal.SIGKILL)
        assert broker.wait(ENDS_S) == 1
        assert broker.stderr is not None
        (error,) = (one for one in broker.stderr if "ERROR" in one)
        assert "cannot start: SIGKILL ended the compiler of the kernels, as the system does" in error


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_while_modules_are_imported_is_no_traceback(ignored: bool, tmp_path: Path) -> None:
    """Unless the parent ignores it, as shells do for commands in the background of a script."""
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('not interrupted')\n"
    )
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kbroker", "topics", "list"],
            env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ("not interrupted" in done.stderr) is ignored
    if not ignored:
        assert (done.returncode, done.stderr) == (130, "")
