"""A start that cannot succeed ends with one line: before it compiles, and without repetition."""

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

from kbroker.control.store.store import FILE_NAME, VERSION, Store
from tests.kernels.fresh import fresh_environment


def _serve(log_dir: Path, port: int, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    settings = [f"log.dirs={log_dir}", f"listeners=PLAINTEXT://127.0.0.1:{port}", "kbroker.http.listen="]
    overrides = [word for setting in settings for word in ("--override", setting)]
    command = [sys.executable, "-m", "kbroker", "serve", *overrides]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_port_in_use_is_reported_before_the_kernels_are_compiled(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = _serve(tmp_path / "data", port, fresh_environment(tmp_path / "cache"))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"cannot start: PLAINTEXT://127.0.0.1:{port}: Address already in use; " in line
    assert line.endswith("end it, or set another port")


def test_a_store_of_a_newer_version_is_refused_in_one_line(tmp_path: Path) -> None:
    Store(tmp_path / FILE_NAME).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.close()
    done = _serve(tmp_path, 0, dict(os.environ))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "died" not in done.stderr
    assert done.stderr.count(f"{FILE_NAME} is of a newer kbroker") == 1
    assert "control 0 cannot start" in done.stderr


def test_without_an_image_and_a_compiler_a_start_ends_with_one_line(tmp_path: Path) -> None:
    """The checks of a start import kernels, which import numba, which fails without LLVM."""
    program = """
import sys
from kbroker.kernels import image, installed
image.use = installed.has_compiler = lambda: False
from kbroker.cli.app import run
sys.exit(run(sys.argv[1:]))"""
    command = [sys.executable, "-c", program, "serve", "--override", f"log.dirs={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "cannot start: the compiled kernels " in line
    assert line.endswith("no compiler is installed here: install the wheel with pip")
