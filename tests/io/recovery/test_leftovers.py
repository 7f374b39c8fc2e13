"""Half done deletions and compactions are finished or undone."""

from pathlib import Path

import pytest

from kbroker.io.recovery.leftovers import clear_leftovers
from kbroker.log import files
from tests.io.append.plain_append import NOW, names
from tests.io.recovery.torn_log import filled, load, offsets
from tests.log.batch_bytes import batch
from tests.log.folder import Folder


def test_leftovers_of_deletion_and_compaction_are_cleared(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    folder = Folder(log.folder, 100)
    low, middle, high = bases[0], bases[1], bases[2]
    # the compacted result of the first two segments was complete; of the third it was not
    folder.segment(10**6, [batch(n, [b"x" * 60], [NOW + n]) for n in range(0, high, 2)])
    for suffix in (".log", ".index", ".timeindex"):
        folder.file(10**6, suffix).rename(folder.path / f"{low:020d}{suffix}.swap")
        (folder.path / f"{high:020d}{suffix}.cleaned").write_bytes(b"half")
        (folder.path / f"{77:020d}{suffix}.deleted").write_bytes(b"gone")
    (folder.path / f"{5000:020d}.index").write_bytes(b"orphan")
    load(log, recovery_point=high)
    left = names(folder.path)
    assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted"))]
    assert f"{5000:020d}.index" not in left
    assert f"{middle:020d}.log" not in left
    assert offsets(folder.path) == [*range(0, high, 2), *range(high, 20)]


def test_swaps_after_an_unfinished_split_are_dropped(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 3)
    for name in (f"{0:020d}.log.cleaned", f"{0:020d}.log.swap", f"{0:020d}.index.swap"):
        (log.folder / name).write_bytes(b"half")
    assert load(log).active.next_offset == 3
    assert not [name for name in names(log.folder) if name.endswith((".swap", ".cleaned"))]


def swapped(root: Path, *results: tuple[int, int]) -> Path:
    """Segments 0, 4, 8 and 12 of four records each with all their files, and complete results
    (base, last offset) of compactions."""
    root.mkdir()
    folder = Folder(root, 100)
    for base, last in results:
        folder.segment(base, [batch(offset, [b"new"], [NOW]) for offset in (base, last)])
        folder.file(base, ".log").rename(root / f"{base:020d}.log.swap")
    for base in (0, 4, 8, 12):
        folder.segment(base, [batch(base + n, [b"old"], [NOW]) for n in range(4)])
        for suffix in (".txnindex", ".snapshot"):
            (root / f"{base:020d}{suffix}").write_bytes(b"of the old segment")
    return root


def bases_of(root: Path, suffix: str) -> list[int]:
    return sorted(int(name.split(".")[0]) for name in names(root) if name.endswith(suffix))


def test_a_swap_replaces_the_segments_below_its_end_and_no_others(tmp_path: Path) -> None:
    """Its result ends right below the next segment, and has no transaction index."""
    root = swapped(tmp_path / "log", (0, 7))
    clear_leftovers(str(root))
    assert bases_of(root, ".log") == [0, 8, 12]
    assert offsets(root) == [0, 7, *range(8, 16)]
    assert bases_of(root, ".txnindex") == [8, 12]
    assert bases_of(root, ".snapshot") == [0, 8, 12]


def test_several_results_replace_all_that_they_cover(tmp_path: Path) -> None:
    """As of a segment that was split: the second begins in the middle of an old one."""
    root = swapped(tmp_path / "log", (0, 5), (6, 11))
    clear_leftovers(str(root))
    assert bases_of(root, ".log") == [0, 6, 12]
    assert offsets(root) == [0, 5, 6, 11, *range(12, 16)]


@pytest.mark.parametrize("cleaned", [(4,), (4, 12)])
def test_a_result_is_dropped_if_a_file_that_was_not_complete_begins_below_it(
    tmp_path: Path, cleaned: tuple[int, ...]
) -> None:
    root = swapped(tmp_path / "log", (8, 11))
    for base in cleaned:
        (root / f"{base:020d}.log.cleaned").write_bytes(b"half")
    clear_leftovers(str(root))
    assert offsets(root) == list(range(16))


def test_indexes_without_a_log_are_removed(tmp_path: Path) -> None:
    root = swapped(tmp_path / "log")
    (root / f"{4:020d}.log").unlink()
    clear_leftovers(str(root))
    for suffix in (".index", ".timeindex", ".txnindex"):
        assert bases_of(root, suffix) == [0, 8, 12]
