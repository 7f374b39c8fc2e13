"""Programs that run beside a test, and end with it.

`with subprocess.Popen(...)` waits at its end for a program without a limit: after a failed
assertion it may never end, and neither does the test."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

KILLED_S = 60
STALLED = 124
"""The exit code of a script that was killed, as coreutils' `timeout` has it."""


@contextmanager
def program(command: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A program with options of Popen. At the end of the `with` it is killed, if it still runs."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait(KILLED_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):  # what it has not read
                    pipe.close()


def run_script(
    command: Sequence[str | Path], output: Path, step: re.Pattern[bytes], step_s: float, **options: Any
) -> int:
    """Runs a script that prints a line of this pattern at each of its steps; returns its exit code.
    A script without a new step within step_s is killed, and the code is STALLED."""
    with (
        output.open("wb") as out,
        program(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **options) as script,
    ):
        steps, since = 0, time.monotonic()
        while (code := script.poll()) is None:
            if (now_at := len(step.findall(output.read_bytes()))) != steps:
                steps, since = now_at, time.monotonic()
            elif time.monotonic() - since > step_s:
                return STALLED
            time.sleep(0.1)
        return code
