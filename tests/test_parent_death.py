"""A process that asked for a signal does not outlive its parent."""

import subprocess
import sys

SECONDS = 60
PARENT = f"""
import os, signal, sys, time
from kbroker.parent_death import signal_on_parent_death

ready, done = os.pipe()
if os.fork() == 0:
    signal_on_parent_death(signal.SIGKILL)
    os.write(done, b".")
    time.sleep(3 * {SECONDS})
os.read(ready, 1)
print("dies", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_gets_the_signal_when_its_parent_is_killed() -> None:
    """The output ends only when the child, which has inherited it, has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, timeout=SECONDS, check=False
    )
    assert done.stdout == b"dies\n"
