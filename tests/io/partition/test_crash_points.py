"""A process that dies within a truncation leaves a log that opens, ends where it should, and holds
whole batches."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.ipc.crash_point import POINTS, VARIABLE
from tests.io.append.plain_append import Log, topic_config
from tests.io.recovery.torn_log import offsets
from tests.peer.kbroker_node import ROOT

TRUNCATE = """
import sys
from pathlib import Path
from tests.io.recovery.torn_log import filled
log = filled(Path(sys.argv[1]))
log.reopen(clean=False)
log.partition.truncate_to(int(sys.argv[2]), 0)
"""


def test_without_the_variable_a_crash_point_is_an_empty_function() -> None:
    code = (
        "from kbroker.ipc import crash_point as c; [c.crash_point(p) for p in c.POINTS];"
        " print(c.crash_point.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.strip() == b"_nothing"


def test_a_name_that_is_no_place_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import kbroker.ipc.crash_point"],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "nowhere:1"},
        capture_output=True,
        check=False,
    )
    assert b"no such place" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POINTS if name.startswith("truncate")])
@pytest.mark.parametrize("target", [13, 1])
def test_a_truncation_that_dies_leaves_a_complete_prefix(name: str, target: int, tmp_path: Path) -> None:
    shell = (
        f"'{sys.executable}' -c '{TRUNCATE}' '{tmp_path}' {target}; true"  # the point kills its parent, too
    )
    done = subprocess.run(
        ["sh", "-c", shell],
        cwd=ROOT,
        env={**os.environ, VARIABLE: f"{name}:1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    log = Log(tmp_path, topic_config(segment_bytes=700, index_interval_bytes=100))
    log.open(clean=False)
    found = offsets(log.folder)
    assert found == list(range(len(found)))
    assert target <= len(found) <= 20
    log.partition.truncate_to(target, 0)
    assert offsets(log.folder) == list(range(target))
    log.partition.close()
