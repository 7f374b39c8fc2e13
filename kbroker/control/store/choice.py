"""Chooses the copy of the store that a start uses, and writes further copies.

It uses the newest intact copy: the one of the latest run, and in that run the one with the most
changes. Each copy lists all current copies (`Store.copies`). So if only one copy of three is found,
it may be out of date, and the broker refuses to start.
"""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from kbroker.control.store.store import FILE_NAME, NewerStore, Store, StoreError
from kbroker.ipc.crash_point import crash_point
from kbroker.log import files

log = logging.getLogger(__name__)

COPIES = 3
"""Number of log dirs with a copy; more if there are more sites."""
WRITING = ".writing"
REFUSED = ".refused"


class Chosen(Struct, frozen=True):
    """doubtful: a copy that was not found may have later changes."""

    store: Store
    doubtful: bool


def copy_dirs(sites: Sequence[Sequence[str]], online: Sequence[str]) -> tuple[str, ...]:
    """Log dirs that should have a copy: one on each site, then others, if they are online."""
    usable = [[log_dir for log_dir in site if log_dir in online] for site in sites]
    firsts = [site[0] for site in usable if site]
    others = [log_dir for site in usable for log_dir in site[1:]]
    return tuple([*firsts, *others][: max(COPIES, len(sites))])


def open_newest(log_dirs: Sequence[str], all_dirs: Sequence[str], cluster_id: str) -> Chosen:
    """The newest store; a new one in the first log dir if no log dir has one. It has reserved no
    space yet (`Store.reserve`).

    log_dirs: those that are online; all_dirs: offline ones included. Raises StoreError if every
    copy is damaged, if one was written by a newer version, or if more than half of the copies are
    missing."""
    found, refused = _open_all(log_dirs, cluster_id)
    missing = sorted(set(all_dirs) - set(log_dirs))
    if not found:
        if refused:
            raise next(iter(refused.values()))
        if missing:
            raise StoreError(f"{FILE_NAME} may be in a log dir that cannot be used: {', '.join(missing)}")
        return Chosen(Store(Path(log_dirs[0], FILE_NAME), reserve=False), False)
    newest = max(found, key=lambda log_dir: found[log_dir].version)
    store = found[newest]
    for log_dir, other in found.items():
        if other is not store:
            if other.version != store.version:
                log.warning(
                    "the copy of the store in %s is not used: it has changes up to %s, that in %s up to %s",
                    log_dir,
                    other.version,
                    newest,
                    store.version,
                )
            other.close()
    written = set(store.copies) & set(all_dirs)
    gone = sorted(written - set(found))
    if 2 * len(gone) > len(written):
        store.close()
        raise StoreError(
            f"{newest}/{FILE_NAME} may be out of date: the copies in {', '.join(gone)} cannot be read. Restore one "
            "of them, or remove these log dirs from log.dirs"
        )
    for log_dir, error in refused.items():
        log.error("the store in %s is not used, but kept as %s%s: %s", log_dir, FILE_NAME, REFUSED, error)
        for old in _files(Path(log_dir, FILE_NAME)):
            if old.exists():
                old.replace(f"{log_dir}/{FILE_NAME}{REFUSED}{old.name.removeprefix(FILE_NAME)}")
    if gone:
        log.warning(
            "the store's copy in %s cannot be read; starting with that in %s", ", ".join(gone), newest
        )
    return Chosen(store, bool(gone))


def _open_all(log_dirs: Sequence[str], cluster_id: str) -> tuple[dict[str, Store], dict[str, StoreError]]:
    """Every readable copy, and the errors of the others. Raises NewerStore."""
    found: dict[str, Store] = {}
    refused: dict[str, StoreError] = {}
    for log_dir in log_dirs:
        path = Path(log_dir, FILE_NAME)
        if not path.exists():
            continue
        try:
            store = Store(path, reserve=False)
        except NewerStore:
            for other in found.values():
                other.close()
            raise
        except StoreError as error:
            refused[log_dir] = error
            continue
        if (known := store.meta("cluster_id", cluster_id)) != cluster_id:
            text = f"{path}: the store is of cluster {known}, the log dirs' meta.properties say {cluster_id}"
            refused[log_dir] = StoreError(text)
            store.close()
        else:
            found[log_dir] = store
    return found, refused


def write_copy(source: Path, log_dir: str) -> Store:
    """Write a copy of a store over the existing file; the store must not change meanwhile.

    Runs in its own thread. The copy is complete on disk before it gets its name. Raises OSError,
    sqlite3.Error, StoreError."""
    path = Path(log_dir, FILE_NAME)
    writing = Path(f"{path}{WRITING}")
    for left in _files(writing):
        left.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(writing)) as other:
        one.backup(other)
    files.sync_file(str(writing))
    for old in _files(path)[:2]:  # its write-ahead log must never meet the new file
        old.unlink(missing_ok=True)
    files.sync_folder(log_dir)
    crash_point("store: write-ahead log out of the way")
    writing.replace(path)
    files.sync_folder(log_dir)
    return Store(path)


def _files(path: Path) -> list[Path]:
    """The files that belong to a SQLite database."""
    return [Path(f"{path}{ending}") for ending in ("-wal", "-shm", "")]
