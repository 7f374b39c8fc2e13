"""Replaces segments by a cleaned one, so that a crash at any step leaves the old log or the new
one.

1. Every file is renamed from ``.cleaned`` to ``.swap``: from here on recovery (leftovers.py)
   finishes the swap.
2. The new .log replaces the old one of its base, after the old indexes are removed and before the
   new ones come.
3. The other old segments are renamed to ``.deleted``, each .log first.
4. The second link of the .log, with ``.swap``, is removed.

Kafka's LocalLog.replaceSegments marks all old files deleted before it renames new ones. Here other
processes list the folder: at each moment every offset must be in one of its segments, and no index
may be beside a .log of a different segment.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kbroker.ipc.cleaning_messages import SwapSegments
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.log import files

INDEXES = (files.INDEX, files.TIME_INDEX, files.TXN_INDEX)
NEEDED = (files.LOG, files.INDEX, files.TIME_INDEX)


class CleanedFilesGone(Exception):
    """A ``.cleaned`` file is missing: the cleaner gave up meanwhile. Nothing was changed."""


class NothingSwapped(OSError):
    """An error before the new .log was in place, as of a full disk: the folder is as before."""


def swap_steps(folder: str, base_offset: int, replaced: Sequence[int], deleted: list[str]) -> Iterator[str]:
    """Do the swap; yields the name of each step after it is done, for tests that stop there.

    replaced: base offsets, the first one being that of the cleaned segment. deleted: takes the
    paths of old files, which are due for removal later. Raises CleanedFilesGone, NothingSwapped,
    and OSError: then recovery finishes the swap."""
    log = files.path(folder, base_offset, files.LOG)
    try:
        yield from _prepare(folder, base_offset, deleted)
        Path(log + files.SWAP + files.DELETED).rename(log)
    except OSError as error:
        _undo(folder, base_offset, deleted)
        raise NothingSwapped(error.errno, error.strerror, error.filename) from error
    yield "new .log in place"
    for suffix in INDEXES:
        path = Path(files.path(folder, base_offset, suffix))
        with suppress(FileNotFoundError):
            Path(f"{path}{files.SWAP}").rename(path)
            yield f"new {suffix} in place"
    for base in replaced[1:]:
        yield from _mark_deleted(folder, base, (files.LOG, *INDEXES, files.SNAPSHOT), deleted, or_remove=True)
    Path(log + files.SWAP).unlink()
    yield "swap done"


def _prepare(folder: str, base_offset: int, deleted: list[str]) -> Iterator[str]:
    """All steps before the new .log is in place."""
    log = files.path(folder, base_offset, files.LOG)
    yield from _claim(folder, base_offset)
    yield from _mark_deleted(folder, base_offset, INDEXES, deleted)
    _link(
        log, log + files.DELETED
    )  # readers need no name, but freeing a large file here would hold up appends
    deleted.append(log + files.DELETED)
    yield "old .log linked"
    _link(log + files.SWAP, log + files.SWAP + files.DELETED)  # recovery always removes this file
    yield "new .log linked"


def _undo(folder: str, base_offset: int, deleted: list[str]) -> None:
    """Bring the folder to what it was before `_prepare`, without the result. Recovery would finish
    the swap, and bring back records, if the result stayed while the log changes.

    A crash in between leaves the new log or the old one: as long as there is a .log with ``.swap``
    recovery finishes the swap, and beside one with ``.cleaned`` it removes the rest. Raises
    OSError."""
    log = files.path(folder, base_offset, files.LOG)
    for path in deleted:
        if path == log + files.DELETED:
            Path(path).unlink()  # the .log has its own name, too
        else:
            Path(path).rename(path.removesuffix(files.DELETED))
    deleted.clear()
    with suppress(FileNotFoundError):
        Path(log + files.SWAP).rename(log + files.CLEANED)
    indexes = (one + state for state in (files.SWAP, files.CLEANED) for one in INDEXES)
    for suffix in (files.LOG + files.SWAP + files.DELETED, *indexes, files.LOG + files.CLEANED):
        Path(files.path(folder, base_offset, suffix)).unlink(missing_ok=True)


def files_unchanged(folder: str, request: SwapSegments) -> bool:
    """Whether the files are still the ones that the cleaner read and wrote, and not later files of
    the same names."""
    paths = [(files.path(folder, base, files.LOG), inode) for base, _, inode in request.replaced]
    cleaned = files.path(folder, request.replaced[0][0], files.LOG + files.CLEANED)
    try:
        return all(Path(path).stat().st_ino == inode for path, inode in [*paths, (cleaned, request.inode)])
    except FileNotFoundError:
        return False


def _claim(folder: str, base_offset: int) -> Iterator[str]:
    """Rename the files from ``.cleaned``, which belong to the cleaner, to ``.swap``, which belong
    to the IO worker; undone when a file is missing."""
    taken: list[Path] = []
    for suffix in (*INDEXES, files.LOG):
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


def _mark_deleted(
    folder: str, base: int, suffixes: Sequence[str], deleted: list[str], or_remove: bool = False
) -> Iterator[str]:
    """Rename files. or_remove: remove one at once if there is no room for a longer name."""
    for suffix in suffixes:
        path = Path(files.path(folder, base, suffix))
        try:
            deleted.append(str(path.rename(f"{path}{files.DELETED}")))
        except FileNotFoundError:
            continue
        except OSError as error:
            if not or_remove or error.errno not in NO_ROOM:
                raise
            path.unlink(missing_ok=True)
        yield f"old {base}{suffix} marked deleted"


def _link(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        Path(target).unlink()  # of an earlier swap, not yet removed
    os.link(source, target)
