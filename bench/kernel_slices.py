"""The hot path (`hot_path.py`) in two processes, with and without a feature, in slices of a few ms
that alternate on one processor: what disturbs the machine disturbs both.

`python -m bench.kernel_slices [--acls]` is one of them: it reads names of scenarios and prints ns of
CPU per request.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from kbroker.kernels import image

MEMORY = Path("/dev/shm")
"""The fetched file is here, so that it does not leave the page cache."""
TURNS = 8
"""Turns of a slice. The first is not measured: the processor's caches hold the other process's
data."""


class Slices:
    """One of the processes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def take(self, work: str) -> float:
        """ns of CPU per request, the median of a slice's turns. Raises RuntimeError if the process
        has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(work + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process with the kernels has ended")
        return float(line)


@contextmanager
def slices_of(environment: Mapping[str, str], acls: bool) -> Iterator[Slices]:
    """A process until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.kernel_slices", *(["--acls"] if acls else [])],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Slices(process)
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()  # ends the process


def difference(with_: Slices, without: Slices, work: str, count: int) -> float:
    """ns per request that the first needs more: the median over pairs of neighbouring slices, whose
    order alternates."""
    found = []
    for number in range(count):
        if number % 2:
            one = with_.take(work)
            found.append(one - without.take(work))
        else:
            other = without.take(work)
            found.append(with_.take(work) - other)
    return median(found)


def serve(arguments: Sequence[str]) -> int:
    """Take slices until the input ends."""
    image.use()
    from bench.hot_path import CONNECTIONS, HotPath, frames_of  # with the broker's image of kernels

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = HotPath(Path(folder), with_acls="--acls" in arguments)
        for line in sys.stdin:
            work = line.strip()
            frames = frames_of(work)
            requests = CONNECTIONS * (int(work.rpartition("x")[2]) if "x" in work else 1)
            costs = [path.turn(frames)[0] for _ in range(TURNS)]
            print(median(costs[1:]) / requests, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
