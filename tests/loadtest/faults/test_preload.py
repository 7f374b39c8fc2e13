"""The preloaded library moves the clock and slows the disk of the process it is loaded into, while
it runs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.faults.preload import NoPreload, Preload

PROGRAM = """
import os, sys, time
for line in sys.stdin:
    if line == "clock\\n":
        print(time.time(), time.monotonic(), flush=True)
    else:
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        began = time.monotonic()
        os.pwrite(file, b"x", 0)
        os.fdatasync(file)
        print(time.monotonic() - began, flush=True)
"""


@pytest.fixture
def preload(tmp_path: Path) -> Preload:
    try:
        return Preload(tmp_path)
    except NoPreload as reason:
        pytest.skip(str(reason))


@pytest.fixture
def program(preload: Preload, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "file")]
    environment = {**os.environ, **preload.environment()}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def ask(program: subprocess.Popen[str], what: str) -> list[float]:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(what + "\n")
    program.stdin.flush()
    return [float(word) for word in program.stdout.readline().split()]


def test_the_wall_clock_jumps_and_the_monotonic_clock_does_not(
    preload: Preload, program: subprocess.Popen[str]
) -> None:
    assert abs(ask(program, "clock")[0] - time.time()) < 60
    preload.shift_clock(-3600)
    wall, monotonic = ask(program, "clock")
    assert abs(wall + 3600 - time.time()) < 60
    assert abs(monotonic - time.monotonic()) < 60
    preload.shift_clock(0)
    assert abs(ask(program, "clock")[0] - time.time()) < 60


def test_writes_and_syncs_are_delayed(preload: Preload, program: subprocess.Popen[str]) -> None:
    preload.slow_disk(50)
    assert ask(program, "write")[0] >= 0.1
    assert preload.delayed_calls >= 2
