"""What checkpoints have of deleted logs is dropped; one reading serves all logs that wait."""

import time
from pathlib import Path

import pytest

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.offset_checkpoints import DeletedEntries
from kbroker.log import checkpoint

KEY, OTHER = ("t", 1), ("t", 11)


def put(log_dir: LogDir) -> None:
    log_dir.update_recovery_points({KEY: 1, OTHER: 2})
    log_dir.update_log_start_offsets({KEY: 3, OTHER: 4})
    log_dir.update_cleaner_offsets({KEY: 5, OTHER: 6})


def offsets(log_dir: LogDir) -> list[dict[tuple[str, int], int]]:
    return [log_dir.recovery_points(), log_dir.log_start_offsets(), log_dir.cleaner_offsets()]


def test_every_checkpoint_forgets_a_deleted_log(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path))
    put(log_dir)
    DeletedEntries().drop(log_dir.path, KEY, time.monotonic_ns())
    assert offsets(log_dir) == [{OTHER: 2}, {OTHER: 4}, {OTHER: 6}]


def test_checkpoints_are_read_once_for_the_logs_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    entries = checkpoint.entries

    def counted(path: str) -> frozenset[str]:
        read.append(path)
        return entries(path)

    monkeypatch.setattr(checkpoint, "entries", counted)
    deleted, asked_ns = DeletedEntries(), time.monotonic_ns()
    for number in range(100):
        deleted.drop(str(tmp_path), ("new", number), asked_ns)
    assert len(read) == 3
    (tmp_path / "other").mkdir()
    deleted.drop(str(tmp_path / "other"), ("new", 0), asked_ns)
    assert len(read) == 6


def test_a_reading_from_before_the_log_was_deleted_does_not_count(tmp_path: Path) -> None:
    log_dir, deleted = LogDir(str(tmp_path)), DeletedEntries()
    deleted.drop(log_dir.path, KEY, time.monotonic_ns())
    put(log_dir)
    deleted.drop(log_dir.path, KEY, time.monotonic_ns())
    assert offsets(log_dir) == [{OTHER: 2}, {OTHER: 4}, {OTHER: 6}]
