"""Finishes or removes what an interrupted deletion or compaction left in a partition's folder, as
Kafka's LogLoader does.
"""

import os
from collections.abc import Collection
from pathlib import Path

from kbroker.io.recovery.segment_scan import next_offset_of
from kbroker.log import files


def has_leftovers(names: Collection[str]) -> bool:
    """Whether `clear_leftovers` has anything to do in a folder of these files."""
    if any(name.endswith((files.DELETED, files.CLEANED, files.SWAP)) for name in names):
        return True
    return any(_is_orphan(name, names) for name in names)


def clear_leftovers(folder: str) -> list[str]:
    """Bring a folder to whole segments only; returns what was done, for the log.

    ``.deleted`` and ``.cleaned`` files are removed. ``.swap`` files are the complete result of a
    compaction: they replace the segments whose offsets they cover; those at or after a ``.cleaned``
    file belong to an unfinished split or swap and are removed. Index files without a .log are
    removed. Raises OSError."""
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    done: list[str] = []
    cleaned = [files.base_offset_of(name) for name in names if name.endswith(files.CLEANED)]
    lowest_cleaned = min((base for base in cleaned if base is not None), default=None)
    swaps = []
    for name in names:
        if name.endswith(files.SWAP):
            base = files.base_offset_of(name)
            if base is None or (lowest_cleaned is not None and base >= lowest_cleaned):
                _remove(folder, name, done)
            else:
                swaps.append((base, name))
        elif name.endswith((files.DELETED, files.CLEANED)):
            _remove(folder, name, done)
    if swaps:
        _finish_swap(folder, swaps, done)
    _remove_orphans(folder, done)
    return done


def _finish_swap(folder: str, swaps: list[tuple[int, str]], done: list[str]) -> None:
    logs = [(base, name) for base, name in swaps if name.endswith(files.LOG + files.SWAP)]
    if logs:
        low = min(base for base, _ in logs)
        high = max(low + 1, *(next_offset_of(f"{folder}/{name}", base) for base, name in logs))
        for entry in list(os.scandir(folder)):
            base = files.base_offset_of(entry.name)
            if (
                entry.is_file()
                and base is not None
                and low <= base < high
                and not entry.name.endswith(files.SWAP)
                and entry.name != files.file_name(low, files.SNAPSHOT)  # the producers there are the same
            ):
                _remove(folder, entry.name, done)
    for _, name in swaps:
        Path(folder, name).rename(Path(folder, name.removesuffix(files.SWAP)))
        done.append(f"finished the swap of {name}")


def _remove_orphans(folder: str, done: list[str]) -> None:
    present = {entry.name for entry in os.scandir(folder)}
    for name in present:
        if _is_orphan(name, present):
            _remove(folder, name, done)


def _is_orphan(name: str, names: Collection[str]) -> bool:
    if not name.endswith((files.INDEX, files.TIME_INDEX, files.TXN_INDEX)):
        return False
    base = files.base_offset_of(name)
    return base is not None and files.file_name(base, files.LOG) not in names


def _remove(folder: str, name: str, done: list[str]) -> None:
    Path(folder, name).unlink(missing_ok=True)
    done.append(f"removed {name}")
