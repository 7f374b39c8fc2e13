"""`kbroker export kraft`, the Apache Kafkas that it is for, and settings that keep moves short."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.peer.artifacts import KAFKA, PeerUnavailable, class_path
from tests.peer.kbroker_node import ROOT

RELEASES = [("4.3", KAFKA), ("4.0", "kafka-4.0.0"), ("3.9", "kafka-3.9.1")]
"""With their jars."""
FEW = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def need(jars: str) -> None:
    """Skip the test if there are no such jars."""
    try:
        class_path(jars)
    except PeerUnavailable as reason:
        pytest.skip(f"no {jars}: {reason}")


def export(log_dir: Path, release: str, *more: Path) -> str:
    """Exports all log dirs of a node; gives the printed server.properties."""
    dirs = [str(path) for path in (log_dir, *more)]
    command = [sys.executable, "-m", "kbroker", "export", "kraft", "--kafka", release, *dirs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout
