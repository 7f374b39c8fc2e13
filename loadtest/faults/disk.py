"""A separate disk for the broker under test, which can be filled: an ext4 image, loop-mounted
(needs root)."""

import os
import shutil
import subprocess
from pathlib import Path

GIB = 1 << 30


class NoDisk(RuntimeError):
    """The file system cannot be created; the text has the reason."""


class SmallDisk:
    """Owner: the broker's keeper, which unmounts it. The image is sparse: it takes what is written
    to it."""

    def __init__(self, folder: Path, size: int) -> None:
        self._image = folder / "disk.ext4"
        self.folder = folder / "disk"
        self._ballast = self.folder / "ballast"
        if os.geteuid() != 0:
            raise NoDisk("mounting a file system for the broker needs root")
        for tool in ("mkfs.ext4", "mount", "umount"):
            if shutil.which(tool) is None:
                raise NoDisk(f"needs {tool}")
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self._image, "wb") as image:
            image.truncate(size)
        _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def fill(self) -> int:
        """Fill all free space; returns the number of bytes."""
        taken = 0
        with open(self._ballast, "wb") as ballast:
            for step in (GIB, 16 << 20, 1 << 20, 1 << 12):
                while True:
                    try:
                        os.posix_fallocate(ballast.fileno(), taken, step)
                    except OSError:
                        break
                    taken += step
        return taken

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self, keep: bool = False) -> None:
        """Unmount; remove the image unless it is to be kept."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        if not keep:
            self._image.unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisk(f"{command[0]}: {done.stderr.strip()[-200:]}")
