"""Ctrl-C for the examples that run until they get it."""

import sys

from tests.cli.until_begun import KILLED, main

ENDS = """
import time
try:
    print("begun", flush=True)
    time.sleep(3600)
except KeyboardInterrupt:
    raise SystemExit(7)
"""
STAYS = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("begun", flush=True)
time.sleep(3600)
"""


def test_a_command_ends_with_its_own_code() -> None:
    assert main(60, [sys.executable, "-c", ENDS]) == 7


def test_a_command_that_ignores_ctrl_c_is_killed() -> None:
    assert main(60, [sys.executable, "-c", STAYS], end_s=1) == KILLED
