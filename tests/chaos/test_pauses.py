"""Only what runs below a test run is stopped, and everything continues afterwards."""

import os
import random
import subprocess
import sys
import time

import psutil
import pytest

from tests.chaos.pauses import Pauses
from tests.peer.program import program

TREE = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()']);"
    "print(child.pid, flush=True); sys.stdin.read(); child.wait()"
)


def test_descendants_are_stopped_and_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: (sent.append((pid, number)), kill(pid, number)))
    with program([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        pauses = Pauses(random.Random(1), 0.03)
        pauses.until_the_end_of(run, time.monotonic() + 0.1)
        assert {pid for pid, _ in sent} == {child}
        assert pauses.stopped.total() == len(sent) / 2 > 0
        assert psutil.Process(child).status() != psutil.STATUS_STOPPED
