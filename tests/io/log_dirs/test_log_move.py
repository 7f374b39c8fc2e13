"""A log is copied to another log dir while it is written: the copy is the log, whatever happened to
it meanwhile."""

import os
import shutil
import threading
import time
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.log_dirs import log_move
from kbroker.io.log_dirs.log_move import LogMove, MoveEnded
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import files
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import batch
from tests.syncs import Syncs


class Moved:
    """A log with some segments, and its move to another log dir."""

    def __init__(self, root: Path) -> None:
        for name in ("here", "there"):
            (root / name).mkdir()
        self.log = Log(root / "here", topic_config(segment_bytes=700, index_interval_bytes=100))
        self.log.open()
        self.append(20, b"first")
        self.move = LogMove(self.partition, str(root / "there"), lambda: inf)

    @property
    def partition(self) -> UnifiedLog:
        return self.log.partition

    def append(self, count: int, value: bytes) -> None:
        for _ in range(count):
            self.log.append(batch(0, [value * 10], [NOW]))

    def copied(self) -> None:
        """Until the thread has seen the log as it is now."""
        deadline = time.monotonic() + 60
        while self.move.next_offset != self.partition.log_end or not self.move.caught_up:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def stopped(self) -> None:
        """The copy is complete, its thread has ended, and appends are paused."""
        self.move.start()
        self.copied()
        self.move.leave()
        self.partition.role.pause()

    def finish(self) -> dict[str, bytes]:
        """The log continues in the copy; its .log files, which are those that it had."""
        self.partition.role.pause()
        assert self.move.complete()
        before = logs(Path(self.partition.folder))
        assert any(before.values())
        self.partition.relocate(self.move.rename(), 0, NOW)
        assert logs(Path(self.partition.folder)) == before
        return before


def logs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.log")}


def test_a_log_continues_in_its_copy(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.append(5, b"later")
    assert len(case.finish()) > 2
    case.append(5, b"after")
    end = case.partition.log_end
    case.partition.close()
    assert str(case.partition.folder).startswith(str(tmp_path / "there"))
    assert end == 30


@pytest.mark.parametrize("cut", [0, 3, 19])
def test_truncated_records_are_not_in_the_copy(tmp_path: Path, cut: int) -> None:
    """As in a follower whose leader changes; the log has grown beyond its old end when the copy
    looks again."""
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.partition.truncate_to(cut, NOW)
    case.append(40, b"other")
    case.copied()
    case.finish()


def test_the_lowest_of_several_truncations_counts_for_the_copy(tmp_path: Path) -> None:
    """A follower may change its leader twice before the copy looks again."""
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.move.leave()
    case.partition.truncate_to(3, NOW)
    case.append(20, b"other")
    case.partition.truncate_to(21, NOW)
    case.append(1, b"third")
    case.move.resume()
    case.copied()
    case.finish()


def test_a_copy_of_what_was_cut_since_is_not_switched_to(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.move.leave()  # else the thread may see the cut first, and then the copy is right
    case.partition.role.pause()
    case.partition.truncate_to(3, NOW)
    assert not case.move.complete()
    case.partition.role.resume()
    case.move.resume()
    case.copied()
    case.finish()


def test_a_segment_that_is_cut_while_it_is_copied_leaves_no_bytes_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were whole batches after the end of the shorter log, which a reader or a start may
    take for its records."""
    monkeypatch.setattr(log_move, "PIECE", 100)
    case, cut, sendfile = Moved(tmp_path), threading.Event(), os.sendfile

    def cutting(out: int, source: int, offset: int, count: int) -> int:
        sent = sendfile(out, source, offset, count)
        if offset == 400 and not cut.is_set():
            case.partition.truncate_to(1, NOW)
            cut.set()
        return sent

    monkeypatch.setattr(os, "sendfile", cutting)
    case.move.start()
    assert cut.wait(60)
    case.append(1, b"other")
    case.copied()
    case.finish()


def test_nothing_changes_while_a_log_is_paused(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    partition, row = case.partition, case.log.row
    partition.delete_records(15)
    partition.role.pause()
    assert partition.published.words[Slot.STATE] == SlotState.RECOVERING
    assert partition.retention(NOW) == 0
    partition.role.follow(3)
    partition.role.lead(4)
    assert row[AppendRow.STATE] == AppendState.CLOSED
    assert partition.published.words[Slot.STATE] == SlotState.RECOVERING
    partition.role.resume()
    assert row[AppendRow.STATE] == AppendState.OPEN
    assert partition.published.words[Slot.STATE] == SlotState.ONLINE
    assert partition.retention(NOW) > 0


def test_a_moved_follower_stays_a_follower(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.partition.role.follow(2)
    case.move.start()
    case.copied()
    case.finish()
    assert case.log.row[AppendRow.STATE] == AppendState.CLOSED


def test_a_full_disk_is_still_full_after_a_move_that_was_given_up(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.log.row[AppendRow.STATE] = AppendState.DISK_FULL
    case.partition.role.pause()
    case.partition.role.resume()
    assert case.log.row[AppendRow.STATE] == AppendState.DISK_FULL


def test_the_epoch_of_a_leader_that_was_made_while_paused_is_in_the_copy(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.partition.role.pause()
    assert case.move.complete()
    case.partition.role.lead(9)
    case.partition.relocate(case.move.rename(), 0, NOW)
    assert LeaderEpochFileCache.load(case.partition.folder).entries == ((0, 0), (9, 20))


def test_a_process_without_news_of_a_move_finds_no_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader would take them for the log, which grows elsewhere."""
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.partition.role.pause()
    assert case.move.complete()
    old, there = Path(case.partition.folder), []
    publish = case.partition.published.publish

    def watched(*arguments: Any, **settings: Any) -> None:
        there.append(old.exists())
        publish(*arguments, **settings)

    monkeypatch.setattr(case.partition.published, "publish", watched)
    case.partition.relocate(case.move.rename(), 0, NOW)
    assert there
    assert not any(there)


def test_a_folder_that_can_not_be_put_away_holds_nothing_up(tmp_path: Path) -> None:
    """As on a disk that is left because it fails."""
    case = Moved(tmp_path)
    case.move.start()
    case.copied()
    case.partition.role.pause()
    assert case.move.complete()
    old = Path(case.partition.folder)
    shutil.rmtree(old)
    case.partition.relocate(case.move.rename(), 0, NOW)
    case.append(1, b"after")
    assert case.partition.log_end == 21


def test_a_log_only_continues_in_a_copy_that_is_complete_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old files are removed: until the copy is synced they are the only ones."""
    case = Moved(tmp_path)
    syncs = Syncs(tmp_path / "there", monkeypatch)
    case.move.start()
    case.copied()
    case.append(5, b"later")
    case.partition.role.pause()
    assert case.move.complete()
    folder = Path(case.move.folder)
    synced = syncs.taken()
    assert synced.count(".") == 2, "the folder's name when it is made, and at the end"
    assert {f"{folder.name}/{path.name}" for path in folder.iterdir()} | {folder.name} <= set(synced)
    assert len(list(folder.glob("*.snapshot"))) > 1
    case.partition.relocate(case.move.rename(), 0, NOW)
    assert syncs.taken()[0] == "."
    assert case.partition.recovery_point == case.partition.log_end == 25


def test_more_than_the_last_bytes_is_not_copied_while_appends_are_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Moved(tmp_path)
    case.stopped()
    case.partition.role.resume()
    case.append(1, b"more")
    case.partition.role.pause()
    case.move.list_segments()
    missing = case.move._missing(case.move._plan[0])
    assert missing > 0
    monkeypatch.setattr(log_move, "LAST_BYTES", missing - 1)
    assert not case.move.complete()
    monkeypatch.setattr(log_move, "LAST_BYTES", missing)
    assert case.move.complete()


def test_a_copy_that_has_failed_is_not_completed(tmp_path: Path) -> None:
    case = Moved(tmp_path)
    case.stopped()
    case.move.error = OSError("broken")
    assert not case.move.complete()
    case.move.error = None
    assert case.move.complete()
    assert case.move.switched


def test_a_closed_segment_has_its_time_in_the_copy(tmp_path: Path) -> None:
    """The age of records without a timestamp is counted from it."""
    case = Moved(tmp_path)
    first = sorted(Path(case.partition.folder).glob("*.log"))[0]
    os.utime(first, ns=(5_000, 6_000))
    case.move.start()
    case.copied()
    case.finish()
    assert Path(case.partition.folder, first.name).stat().st_mtime_ns == 6_000


@pytest.mark.parametrize(("rate", "piece"), [(5000.0, 100), (500.0, 50), (50.0, 10)])
def test_pieces_and_pauses_follow_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, piece: int
) -> None:
    """A piece takes a tenth of a second, and is never very small or very large."""
    monkeypatch.setattr(log_move, "PIECE", 100)
    monkeypatch.setattr(log_move, "MIN_PIECE", 10)
    case, sent, pauses, sendfile = Moved(tmp_path), list[int](), list[float](), os.sendfile

    def watched(out: int, source: int, offset: int, count: int) -> int:
        sent.append(count)
        return sendfile(out, source, offset, count)

    move = LogMove(case.partition, str(tmp_path / "there"), lambda: rate)
    Path(move.folder).mkdir()
    move.list_segments()
    state = move._plan[0][0]
    source, copy = (
        files.path(folder, state.base, files.LOG) for folder in (case.partition.folder, move.folder)
    )
    monkeypatch.setattr(os, "sendfile", watched)
    monkeypatch.setattr(move, "_ended", SimpleNamespace(is_set=lambda: False, wait=pauses.append))
    with open(source, "rb") as log:
        move._copy_bytes(log.fileno(), state, 0, throttled=True)
        assert set(sent[:-1]) == {piece}
        assert sum(sent) == state.bytes
        assert all(0 <= pause < count / rate for pause, count in zip(pauses, sent, strict=True))
        assert max(pauses) > 0
        monkeypatch.setattr(move, "_ended", SimpleNamespace(is_set=lambda: True, wait=None))
        with pytest.raises(MoveEnded):
            move._copy_bytes(log.fileno(), state, 0, throttled=True)
        move._copy_bytes(log.fileno(), state, 0, throttled=False)
    assert Path(copy).read_bytes() == Path(source).read_bytes()
