"""A snapshot takes the place of a metadata log at once, or not at all."""

from pathlib import Path

import pytest

from kbroker.control.kraft.snapshot import SnapshotId, write
from kbroker.log import files
from tests.syncs import Syncs


def test_older_metadata_is_removed_once_the_snapshot_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    old = {
        SnapshotId(5, 1).file_name,
        files.file_name(0, files.LOG),
        files.file_name(0, files.INDEX),
        files.file_name(7, files.SNAPSHOT),
        files.LEADER_EPOCH_CHECKPOINT,
    }
    for name in (*old, "quorum-state"):
        (folder / name).write_bytes(b"old")
    syncs = Syncs(folder, monkeypatch)
    synced: list[str] = []
    unlink = Path.unlink

    def watched(path: Path) -> None:
        synced.extend(syncs.taken())
        old.remove(path.name)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", watched)
    place = write(folder, SnapshotId(9, 2), b"new")
    assert synced == [place.name + ".part", "."]
    assert syncs.taken() == ["."]
    assert old == set()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        place.name: b"new",
        "quorum-state": b"old",
    }
    assert place.stat().st_mode & 0o777 == 0o600
