"""A disk of its own for a test: a file system on a loop device that can fail, vanish, or lose what
was not synced.

`fail` uses the kernel's EXT4_IOC_SHUTDOWN, with which file system tests play a dead disk or a power cut: from then on
every read, write and sync of the file system is answered with EIO; with NO_LOG_FLUSH nothing that
was not yet written to the device arrives there any more, neither file contents nor the journal.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.peer.eventually import eventually

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2


class LoopDisk:
    """Owner: the test, which calls `remove`. folder: where it is mounted."""

    def __init__(self, folder: Path, megabytes: int = 64) -> None:
        if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists():
            pytest.skip("a file system of our own takes root, mkfs.ext4 and loop devices")
        self.folder = folder
        self._image = folder.with_suffix(".img")
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True, capture_output=True)
        folder.mkdir()
        self.mount()

    def mount(self) -> None:
        """Mount it (again); what the device holds is there, the rest is not."""
        done = subprocess.run(
            ["mount", "-o", "loop", str(self._image), str(self.folder)], check=False, capture_output=True
        )
        if done.returncode:
            pytest.skip(f"no loop device can be mounted: {done.stderr.decode()}")

    def remount(self) -> None:
        """Unmount and mount: the journal is replayed, as after a power cut. No process may have a
        file open."""
        eventually(self._is_unmounted)
        eventually(self._is_detached)
        self.mount()

    def _is_unmounted(self) -> bool:
        """Not while a killed process is still ending: it has its files open."""
        done = subprocess.run(["umount", str(self.folder)], check=False, capture_output=True)
        assert done.returncode == 0 or b"busy" in done.stderr, done.stderr.decode()
        return done.returncode == 0

    def _is_detached(self) -> bool:
        """Not while the mount namespace of another test has a copy of the mount: the failed file
        system would be mounted again, with its loop device."""
        listed = subprocess.run(["losetup", "-j", str(self._image)], check=True, capture_output=True)
        return not listed.stdout

    def fail(self) -> None:
        """From now on EIO; unsynced writes never reach the device."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def vanish(self) -> None:
        """The mount is gone: an open file stays open, new opens find the empty mount
        point."""
        subprocess.run(["umount", "-l", str(self.folder)], check=True)

    def remove(self) -> None:
        """Unmount it, whatever state it is in."""
        while os.path.ismount(self.folder):
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        self._image.unlink(missing_ok=True)
