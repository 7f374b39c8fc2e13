"""A stop while the first start compiles kernels: one clean end, and no compiler remains."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbroker.kernels import packaged, plain

ENDS_S = 30.0


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


@pytest.mark.skipif(plain.ACTIVE or bool(packaged.fitting()), reason="nothing is compiled here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_kernels_compile_ends_all_with_code_0(tmp_path: Path, number: signal.Signals) -> None:
    own = {"XDG_CACHE_HOME": str(tmp_path)}
    broker = subprocess.Popen(
        [sys.executable, "-m", "kbroker", "serve", "--override", f"log.dirs={tmp_path / 'data'}"],
        env=os.environ | own, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert broker.stderr is not None
        lines = iter(broker.stderr.readline, "")
        assert any("kernels: compiling" in line for line in lines)
        compilers = descendants(broker.pid)
        assert compilers
        broker.send_signal(number)
        assert broker.wait(ENDS_S) == 0
        deadline = time.monotonic() + ENDS_S
        while any(map(alive, compilers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [one for one in compilers if alive(one)]
        # log dirs are tried before the compiler begins, and hold nothing but their lock's file
        assert {path.name for path in (tmp_path / "data").iterdir()} == {".lock"}
        assert not list(tmp_path.glob("kbroker/*/image-*"))
    finally:
        broker.kill()
        broker.wait()


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
