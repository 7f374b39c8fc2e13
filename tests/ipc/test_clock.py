"""The clocks: a process's age is counted from its start."""

import subprocess
import sys
import time

PRINT_AGE = """
import time
from kbroker.ipc.clock import process_age_s
time.sleep(0.3)
print(process_age_s())
"""


def test_the_age_of_a_process_is_the_time_since_its_start() -> None:
    began = time.monotonic()
    printed = subprocess.run([sys.executable, "-c", PRINT_AGE], capture_output=True, check=True).stdout
    assert 0.3 <= float(printed) <= time.monotonic() - began + 0.02
