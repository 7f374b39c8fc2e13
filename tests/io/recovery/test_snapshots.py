"""The producer snapshots after a recovery."""

from pathlib import Path

from kbroker.log import files
from tests.io.recovery.torn_log import appended, filled, load


def test_a_recovered_log_has_a_snapshot_of_its_end(tmp_path: Path) -> None:
    """The next start need not read a record for its producers."""
    log = filled(tmp_path / "log", 20)
    for snapshot in log.folder.glob("*.snapshot"):
        snapshot.unlink()
    loaded = load(log)
    assert [entry.last_offset for entry in loaded.producers] == [18, 19]
    assert 20 in files.list_snapshots(str(log.folder))
    for path in sorted(log.folder.glob("*.log"))[:-1]:  # nothing of them is read
        path.write_bytes(bytes(path.stat().st_size))
    again = load(log, clean=True)
    assert [entry.last_offset for entry in again.producers] == [18, 19]


def test_a_clean_log_without_snapshots_gets_one_and_has_no_producers(tmp_path: Path) -> None:
    log = appended(tmp_path / "log", 20)
    log.partition.close()
    for snapshot in log.folder.glob("*.snapshot"):
        snapshot.unlink()
    assert list(load(log, clean=True).producers) == []
    assert files.list_snapshots(str(log.folder)) == [20]


def test_a_recovery_writes_no_snapshot_where_it_begins(tmp_path: Path) -> None:
    """It would say that no producer had written before."""
    log = filled(tmp_path / "log", 8, segment_bytes=1000)
    for snapshot in log.folder.glob("*.snapshot"):
        snapshot.unlink()
    bases = sorted(int(path.stem) for path in log.folder.glob("*.log"))
    load(log)
    assert len(bases) == 2
    assert files.list_snapshots(str(log.folder)) == [bases[1], 8]
