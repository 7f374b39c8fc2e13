"""A swap that fails on a full disk leaves the folder as it was, or is completed: files that
recovery would swap in later would bring back records that were removed meanwhile."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.partition.segment_swap import NothingSwapped, swap_steps
from kbroker.io.recovery.leftovers import clear_leftovers
from kbroker.ipc.cleaning_messages import SwapSegments
from kbroker.ipc.layout import Slot
from kbroker.log import files
from tests.io.append.plain_append import NOW, Log
from tests.log.batch_bytes import batch

SUFFIXES = (files.LOG, files.INDEX, files.TIME_INDEX, files.TXN_INDEX)
BASES = (0, 4)


def prepared(folder: Path) -> dict[str, bytes]:
    """Two old segments and the cleaned one for both; the files without it."""
    for base in BASES:
        for suffix in SUFFIXES:
            Path(files.path(str(folder), base, suffix)).write_bytes(b"old" + suffix.encode())
    before = contents(folder)
    for suffix in SUFFIXES:
        Path(files.path(str(folder), 0, suffix + files.CLEANED)).write_bytes(b"new" + suffix.encode())
    # of an earlier swap, not removed yet
    Path(files.path(str(folder), 0, files.INDEX + files.DELETED)).write_bytes(b"older")
    return before


def contents(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: data for name, data in found.items() if not name.endswith(files.DELETED)}


@contextmanager
def full_disk(names: set[str], after: int) -> Iterator[list[str]]:
    """New names, of renamed and of linked files, are refused once so many were given."""
    given: list[str] = []

    def checked(whole: Any) -> Any:
        def call(source: Any, target: Any) -> Any:
            if after <= len(given) and Path(target).name not in names:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
            names.update((Path(source).name, Path(target).name))
            given.append(str(target))
            return whole(source, target)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", checked(Path.rename))
        patch.setattr(os, "link", checked(os.link))
        yield given


def swap(folder: Path, after: int) -> int:
    """Swap with room for so many new names; how many were given. Raises OSError."""
    names = {path.name for path in folder.iterdir()}
    with full_disk(names, after) as given:
        for _ in swap_steps(str(folder), 0, BASES, []):
            pass
    return len(given)


def outcome_of(folder: Path, after: int) -> int | None:
    """The errno of NothingSwapped, 0 for a whole swap."""
    try:
        swap(folder, after)
    except NothingSwapped as error:
        return error.errno
    return 0


def test_a_full_disk_leaves_the_old_segments_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    prepared(tmp_path / "whole")
    new = {f"{0:020d}{suffix}": b"new" + suffix.encode() for suffix in SUFFIXES}
    steps = swap(tmp_path / "whole", 1000)
    assert contents(tmp_path / "whole") == new
    undone = 0
    for after in range(steps):
        folder = tmp_path / str(after)
        folder.mkdir()
        before = prepared(folder)
        error = outcome_of(folder, after)
        assert error in (0, errno.ENOSPC)
        assert contents(folder) == (before if error else new)
        undone += bool(error)
        left = contents(folder)
        clear_leftovers(str(folder))
        assert contents(folder) == left, "recovery finds nothing to finish"
    assert 0 < undone < steps


@pytest.mark.parametrize("dies_at", range(14))
def test_a_death_while_a_swap_is_undone_leaves_the_old_segments_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    class Died(BaseException):
        pass

    before = prepared(tmp_path)
    calls = [0]
    full = False

    def dying(whole: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if full:
                calls[0] += 1
                if calls[0] > dies_at:
                    raise Died
            return whole(*arguments, **named)

        return call

    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    monkeypatch.setattr(Path, "unlink", dying(Path.unlink))
    steps: Any = swap_steps(str(tmp_path), 0, BASES, [])
    while next(steps) != "old .log linked":
        pass
    full = True
    with pytest.raises((Died, NothingSwapped)):
        steps.throw(OSError(errno.ENOSPC, "full"))
    monkeypatch.undo()
    monkeypatch.setattr("kbroker.io.recovery.leftovers.next_offset_of", lambda _, base: base + 8)
    clear_leftovers(str(tmp_path))
    new = {f"{0:020d}{suffix}": b"new" + suffix.encode() for suffix in SUFFIXES}
    assert contents(tmp_path) in (before, new)


@pytest.mark.parametrize(
    "change", ["none", "paused", "another file", "another result", "another size", "a file that is gone"]
)
def test_a_cleaned_segment_replaces_only_the_files_that_were_cleaned(tmp_path: Path, change: str) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(2):
        log.append(batch())
        log.partition.roll(NOW)
    originals = [Path(files.path(str(log.folder), base, files.LOG)) for base in (0, 1)]
    for suffix in (files.LOG, files.INDEX, files.TIME_INDEX):
        path = files.path(str(log.folder), 0, suffix)
        shutil.copy(path, path + files.CLEANED)
    cleaned = Path(f"{originals[0]}{files.CLEANED}").stat()
    (size, inode), (second_size, second_inode) = (
        (status.st_size, status.st_ino) for status in (path.stat() for path in originals)
    )
    request = SwapSegments(
        *(3, 0, ((0, size, inode), (1, second_size + (change == "another size"), second_inode))),
        *(cleaned.st_ino + (change == "another result"), cleaned.st_size, NOW, NOW),
    )
    if change == "paused":
        log.partition.role.pause()
    elif change == "another file":
        shutil.copy(originals[1], tmp_path / "copy")
        (tmp_path / "copy").replace(originals[1])
    elif change == "a file that is gone":
        originals[1].unlink()
    version = int(log.words[Slot.SEGMENTS_VERSION])
    done = log.partition.swap(request, NOW)
    assert done == (change == "none")
    assert log.partition.base_offsets == ([0, 2] if done else [0, 1, 2])
    assert log.partition.size == (cleaned.st_size if done else size + second_size)
    assert log.words[Slot.SEGMENTS_VERSION] == version + 2 * done
