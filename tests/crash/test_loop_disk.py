"""A disk that failed serves again after it was mounted again, whatever runs beside it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.crash.loop_disk import LoopDisk
from tests.peer.eventually import eventually

pytestmark = [pytest.mark.crash]
HELD_S = 3


def test_a_failed_disk_serves_again_while_another_namespace_had_it_mounted(tmp_path: Path) -> None:
    """The namespaces of tests that run beside this one have copies of all mounts."""
    if shutil.which("unshare") is None:
        pytest.skip("namespaces take unshare")
    disk = LoopDisk(tmp_path / "disk")
    try:
        (disk.folder / "before").write_text("kept")
        os.sync()
        holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", str(HELD_S)])
        own = Path("/proc/self/ns/mnt").readlink()
        eventually(lambda: Path(f"/proc/{holder.pid}/ns/mnt").readlink() != own)
        disk.fail()
        disk.remount()
        assert (disk.folder / "before").read_text() == "kept"
        (disk.folder / "after").write_text("written")
        assert holder.wait(60) == 0
    finally:
        disk.remove()
