"""Stops processes below a test run for moments: whatever is reordered by that, a busy machine
reorders, too."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from subprocess import Popen

import psutil

GAP_S = 0.3
"""Up to this long, all run."""


class Pauses:
    """How long and whom. stopped: names of processes -> how often."""

    def __init__(self, chances: random.Random, longest_s: float) -> None:
        self.stopped: Counter[str] = Counter()
        self._chances = chances
        self._longest_s = longest_s

    def until_the_end_of(self, run: Popen[bytes], deadline: float) -> None:
        """Stop and continue one descendant after the other until the run ends, or until a deadline
        (time.monotonic). The run itself is never stopped."""
        while run.poll() is None and time.monotonic() < deadline:
            self._pause_one(run.pid)
            time.sleep(self._chances.uniform(0, GAP_S))

    def _pause_one(self, root: int) -> None:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            below = psutil.Process(root).children(recursive=True)
            if not below:
                return
            chosen = self._chances.choice(sorted(below, key=lambda process: process.pid))
            name = chosen.name()
            os.kill(chosen.pid, signal.SIGSTOP)
            try:
                self.stopped[name] += 1
                time.sleep(self._chances.uniform(0.02, self._longest_s))
            finally:
                os.kill(chosen.pid, signal.SIGCONT)
