"""Half done deletions and compactions are finished or undone."""

from pathlib import Path

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
