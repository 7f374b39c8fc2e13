"""The store is for its user alone: it holds what checks of passwords are made with."""

import stat
from contextlib import suppress
from pathlib import Path

GROUP_AND_OTHERS = 0o077


def close_to_others(path: Path) -> None:
    """Take rights of group and others from a store's files that an earlier version, or a copy, has
    left with them."""
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):  # not there, or another user's: then its owner decides
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & GROUP_AND_OTHERS:
                file.chmod(mode & ~GROUP_AND_OTHERS)
