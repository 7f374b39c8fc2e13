"""The search that is guided by coverage: it finds what it should, and nothing in kbroker."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.campaign import SECONDS, TIMEOUT_S

ROOT = Path(__file__).parents[2]
SHARE = 0.3
START_S = 120
"""For the imports with probes and the first runs, on a busy machine."""
PLANTED = '''
"""A parser with a fault behind three bytes."""


def parse(data):
    """Fails for one beginning."""
    if len(data) > 3 and data[0] == 0x4B:
        if data[1] == 0x42:
            if data[2] == 0x52:
                raise ZeroDivisionError("planted")
    return len(data)
'''
SEARCHING = """
import random, sys
from pathlib import Path
from tests.fuzz.guided.probes import Probes

probes = Probes()
probes.install()
from tests.fuzz.guided.search import Search
from tests.fuzz.guided.target import Target
from kbroker.planted import parse

target = Target("planted", "a planted fault", ("kbroker.planted",), lambda _: parse, lambda _: [b"abcdef"])
search = Search(target, parse, probes, random.Random(int(sys.argv[1])))
for second in range(60):
    found = search.run([], [b"abcdef"], 1)
    if found.failures:
        break
print(found.tried, found.covered, found.probes, [failure.place for failure in found.failures])
print(sorted(len(failure.data) for failure in found.failures))
"""


@pytest.mark.fuzz
@pytest.mark.timeout(TIMEOUT_S + START_S)
def test_a_guided_search_finds_no_fault() -> None:
    seconds, seed = SECONDS * SHARE, random.SystemRandom().getrandbits(32)
    command = [sys.executable, "-m", "tests.fuzz.guided", "--seconds", f"{seconds:.0f}", "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 2 * START_S)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]


def test_a_fault_behind_several_comparisons_is_found(tmp_path: Path) -> None:
    """Random bytes would find it once in sixteen million inputs."""
    package = tmp_path / "kbroker"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "planted.py").write_text(PLANTED)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "KBROKER_NO_KERNELS": "1"}
    command = [sys.executable, "-c", SEARCHING, "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert "ZeroDivisionError at planted.py" in done.stdout, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[4]", "the input is shortened to what is needed"
