"""A first start whose compiler fails: the reason, and no broker that compiles once more by
itself."""

import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.cli import first_compilation
from kbroker.cli.first_compilation import compile_kernels, failure
from kbroker.kernels import image
from tests.compat import no_executable_memory
from tests.peer.kbroker_node import ROOT

CANNOT_USE = "load the kernels with numba"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[str], bool]:
    """Runs a script as the compiler, which makes no image; whether the broker can start."""
    monkeypatch.setattr(image, "use", lambda: False)
    monkeypatch.setattr(first_compilation, "STOP_WITHIN_S", 0.0)
    caplog.set_level(logging.INFO)

    def run(script: str) -> bool:
        monkeypatch.setattr(first_compilation, "COMPILE", script)
        return compile_kernels()

    return run


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sys.exit(1)", "could not be compiled (exit code 1); the lines above say why"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended the compiler of the kernels, as the system"),
        ("import os; os.kill(os.getpid(), 15)", "SIGTERM ended the compiler"),
        ("sys.exit(143)", "SIGTERM ended the compiler"),
    ],
)
def test_a_compiler_that_fails_is_an_error_with_its_reason(
    compiler: Callable[[str], bool], caplog: pytest.LogCaptureFixture, script: str, reason: str
) -> None:
    assert not compiler(script)
    (error,) = (one.message for one in caplog.records if one.levelno == logging.ERROR)
    assert error.startswith("cannot start: ")
    assert reason in error
    assert error.endswith("start again: what is compiled is kept")


def test_an_image_that_cannot_be_used_is_a_warning(
    compiler: Callable[[str], bool], caplog: pytest.LogCaptureFixture
) -> None:
    assert compiler("sys.exit(0)")
    (warning,) = (one.message for one in caplog.records if one.levelno == logging.WARNING)
    assert warning.endswith(CANNOT_USE)


def test_a_module_of_the_working_directory_is_not_found(
    compiler: Callable[[str], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp another user may have put it there."""
    (tmp_path / "planted_module.py").touch()
    monkeypatch.chdir(tmp_path)
    assert compiler("import importlib.util; sys.exit(importlib.util.find_spec('planted_module') is not None)")


def test_an_interrupt_does_not_reach_the_compiler(compiler: Callable[[str], bool]) -> None:
    """Not even while its interpreter starts: a traceback would be printed."""
    assert compiler(
        "import os, signal; os.kill(os.getpid(), signal.SIGINT); "
        "sys.exit(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)"
    )


def test_a_process_that_must_not_run_written_memory_does_not_try_to_compile() -> None:
    script = (
        "import logging; logging.basicConfig(); "
        "from kbroker.cli.first_compilation import compile_kernels; print(compile_kernels())"
    )
    command = [sys.executable, no_executable_memory.__file__, sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.stderr.startswith("no seccomp filter"):
        pytest.skip("this kernel has no seccomp filters")
    assert done.stdout == "False\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert "must not make memory executable" in line
    assert "print the unit again with `kbroker systemd`" in line


def test_every_signal_has_its_name() -> None:
    assert "SIGSEGV ended the compiler" in failure(-signal.SIGSEGV)
