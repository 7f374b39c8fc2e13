"""What the README tells a reader to type does what it says."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [line.removeprefix("    $ ") for line in README.splitlines() if line.startswith("    $ ")]
PROGRAM = f"{sys.executable} -m kbroker"


def typed(command: str, bootstrap: str, until: str = "", patience_s: float = 60) -> str:
    """What a command prints; one that goes on for ever is stopped when it has printed what was waited for."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec 2>&1; {command.replace('.venv/bin/kbroker', PROGRAM)}"],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"KBROKER_BOOTSTRAP": bootstrap},
    )  # fmt: skip
    assert process.stdout is not None
    if not until:
        said, _ = process.communicate(timeout=patience_s)
        assert process.returncode == 0, said
        return said
    said, deadline = "", time.monotonic() + patience_s
    while until not in said and time.monotonic() < deadline:
        said += process.stdout.readline()
    process.terminate()
    process.wait(20)
    return said


def test_the_commands_in_their_order(broker: KBroker) -> None:
    run, create, produce, consume = COMMANDS
    assert run == "make run"
    typed(create, broker.bootstrap)
    typed(produce, broker.bootstrap)
    assert "first record" in typed(consume, broker.bootstrap, until="first record")


def test_the_program_after_the_commands(broker: KBroker) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9092", broker.bootstrap)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("hello ")]) > 0
