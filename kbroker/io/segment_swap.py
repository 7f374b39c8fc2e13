"""Putting a cleaned segment in the place of others so that a crash at any step leaves the old log or the new one.

Order (LocalLog.replaceSegments; recovery: leftovers.py): every file from ``.cleaned`` to ``.swap``; the old
segments to ``.deleted``, each .log first; ``.swap`` to the final names, the .log last. So a reader that still sees
the .log it opened also sees the indexes that belong to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kbroker.log import files

OTHERS = (files.INDEX, files.TIME_INDEX, files.TXN_INDEX)
NEEDED = (files.LOG, files.INDEX, files.TIME_INDEX)


class CleanedFilesGone(Exception):
    """A ``.cleaned`` file is missing: the cleaner gave up meanwhile. Nothing was changed."""


def swap_steps(folder: str, base_offset: int, replaced: Sequence[int], deleted: list[str]) -> Iterator[str]:
    """Do the swap; yields the name of each step after it is done, for tests that stop there.

    replaced: base offsets, the first one being that of the cleaned segment. deleted: takes the paths of old files,
    which are due for removal later. Raises CleanedFilesGone, OSError."""
    yield from _claim(folder, base_offset)
    for base in replaced:
        for suffix in (*NEEDED, files.TXN_INDEX, files.SNAPSHOT):
            if suffix == files.SNAPSHOT and base == base_offset:
                continue  # the producers at its base are the same as before
            path = Path(files.path(folder, base, suffix))
            with suppress(FileNotFoundError):
                deleted.append(str(path.rename(f"{path}{files.DELETED}")))
                yield f"old {base}{suffix} marked deleted"
    for suffix in (*OTHERS, files.LOG):
        path = Path(files.path(folder, base_offset, suffix))
        with suppress(FileNotFoundError):
            Path(f"{path}{files.SWAP}").rename(path)
            yield f"new {suffix} in place"


def _claim(folder: str, base_offset: int) -> Iterator[str]:
    """From ``.cleaned``, which is the cleaner's, to ``.swap``, which is ours; undone when a file is missing."""
    taken: list[Path] = []
    for suffix in (*OTHERS, files.LOG):
        path = files.path(folder, base_offset, suffix)
        try:
            taken.append(Path(f"{path}{files.CLEANED}").rename(f"{path}{files.SWAP}"))
        except FileNotFoundError:
            if suffix not in NEEDED:
                continue
            for swap in taken:
                swap.unlink()
            raise CleanedFilesGone(path) from None
        yield f"cleaned {suffix} renamed to swap"
