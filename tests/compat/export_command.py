"""`kbroker export kraft`, and settings that keep moves short."""

import subprocess
import sys
from pathlib import Path

from tests.peer.kbroker_node import ROOT

FEW = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def export(log_dir: Path, release: str, *more: Path) -> str:
    """Exports all log dirs of a node; gives the printed server.properties."""
    dirs = [str(path) for path in (log_dir, *more)]
    command = [sys.executable, "-m", "kbroker", "export", "kraft", "--kafka", release, *dirs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout
