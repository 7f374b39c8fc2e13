"""A broker started as an unprivileged user, on a root file system that nothing can write."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kbroker.kernels.cache import cache_folder
from tests.peer.kbroker_node import ROOT, KBroker

pytestmark = pytest.mark.slow

UID = GID = 65534
NEEDED = (Path(sys.base_prefix), Path(sys.prefix), ROOT)
READ_ONLY = (
    "unshare", "--mount", "--propagation", "private", "sh", "-c",
    "mount -t tmpfs tmpfs /tmp && mount -o remount,bind,ro /",
)  # fmt: skip
"""What the root of a container may be refused."""
SCRIPT = """
set -e
{opening}
data=$1; shift
mount --bind "$data" "$data"
mount -o remount,bind,ro /
exec setpriv --reuid {uid} --regid {gid} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
"""


def hidden() -> dict[Path, list[Path]]:
    """Folders that only their owner may enter, each with what the broker needs below it."""
    found: dict[Path, list[Path]] = {}
    for path in NEEDED:
        closed = [each for each in reversed(path.parents) if not each.stat().st_mode & 1]
        if closed:
            found.setdefault(closed[0], []).append(path)
    return found


def opening(holds: Path) -> str:
    """Commands that put an open folder in place of each hidden one, with only what is needed."""
    lines = []
    for number, (folder, paths) in enumerate(hidden().items()):
        held = [(path, holds / f"{number}-{index}") for index, path in enumerate(paths)]
        for path, hold in held:
            hold.mkdir(parents=True)
            lines.append(f"mount --bind '{path}' '{hold}'")
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs '{folder}'")
        lines += [f"mkdir -p '{path}' && mount --bind '{hold}' '{path}'" for path, hold in held]
        lines.append(f"mount -o remount,ro '{folder}'")
    return "\n".join(lines)


class Unprivileged(KBroker):
    """A kbroker in a mount namespace where only its data can be written."""

    def _command(self) -> list[str]:
        script = SCRIPT.format(opening=opening(self.folder / "holds"), uid=UID, gid=GID)
        shell = ["sh", "-c", script, "sh", str(self.data_dir)]
        return ["unshare", "--mount", "--propagation", "private", *shell, *super()._command()]


def with_data(folder: Path) -> Unprivileged:
    """A broker whose data and image of kernels belong to the user."""
    node = Unprivileged(folder)
    cache = node.data_dir / "cache"
    own = cache_folder()
    shutil.copytree(own, cache / own.parent.name / own.name)
    node.settings["log.dirs"] = str(node.data_dir / "logs")
    (node.data_dir / "logs").mkdir()
    for path in (node.data_dir, *node.data_dir.rglob("*")):
        os.chown(path, UID, GID)
    node.environment = {"XDG_CACHE_HOME": str(cache), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return node


def refused() -> str:
    """The reason why this host cannot run the test; empty if it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    for program in ("unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"no {program}"
    tried = subprocess.run(READ_ONLY, capture_output=True, text=True)
    return f"no read-only root: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter. pytest closes its own ones, also those of other runs."""
    with tempfile.TemporaryDirectory(prefix="kbroker-unprivileged-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_it_starts_takes_records_and_stops(open_folder: Path) -> None:
    if why := refused():
        pytest.skip(why)
    node = with_data(open_folder / "node")
    node.start()
    try:
        about = Path(f"/proc/{node.pid}/status").read_text()
        assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}" in about
        assert "CapEff:\t0000000000000000" in about
        mounts = [line.split() for line in Path(f"/proc/{node.pid}/mountinfo").read_text().splitlines()]
        assert [mount[5].split(",")[0] for mount in mounts if mount[4] == "/"][-1] == "ro"
        producer = Producer({"bootstrap.servers": node.bootstrap})
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for number in range(100):
            producer.produce("t", str(number), on_delivery=delivered)
        assert producer.flush(120) == 0
        assert not failed
    finally:
        node.stop()
    assert (node.data_dir / "logs" / "t-0" / "00000000000000000000.log").stat().st_size > 0
    assert "Traceback" not in node.logs(1_000_000)
