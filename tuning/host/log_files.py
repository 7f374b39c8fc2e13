"""The space that the logs take on their disks."""

import os
from collections.abc import Iterable
from contextlib import suppress

BLOCK = 512


def held_bytes(log_dirs: Iterable[str]) -> int:
    """Blocks of all files in the folders of partitions; what cannot be read counts as nothing."""
    return sum(_blocks(folder, 1) for folder in log_dirs) * BLOCK


def _blocks(folder: str, deeper: int) -> int:
    """Blocks (512 bytes) of the files in a folder. deeper: levels of folders below it to
    include."""
    count = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    count += entry.stat(follow_symlinks=False).st_blocks
                elif deeper and entry.is_dir(follow_symlinks=False):
                    count += _blocks(entry.path, deeper - 1)
    return count
