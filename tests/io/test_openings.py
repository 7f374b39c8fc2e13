"""A process that waits for a recovery sees its progress; one that does not wait sees nothing."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.files.log_dir import LogDir
from kbroker.io.openings import Opening, Openings, RecoveryProgress, bytes_from
from kbroker.io.recovery import recovery
from kbroker.io.recovery.loaded_log import LoadedLog
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import Lead, OpenPartition
from kbroker.log import boot_mark, files
from kbroker.log.checkpoint import TopicPartition
from tests.io.append.plain_append import Log, topic_config
from tests.log.batch_bytes import batch, end_marker

DAY_MS = 86_400_000
TOPIC_ID = b"\1" * 16
SECOND = 1_000_000_000


def test_a_line_a_second_and_one_at_the_end() -> None:
    progress = RecoveryProgress()
    for _ in range(3):
        progress.begin(0)
    progress.scanned(5_000_000)
    progress.finish()
    assert progress.line(SECOND // 2) is None
    assert progress.line(SECOND) == "1 of 3 logs loaded, 5 MB checked in 1.0 s"
    assert progress.line(SECOND + 1) is None
    progress.finish()
    progress.finish()
    assert progress.line(SECOND * 3 // 2) == "3 of 3 logs loaded, 5 MB checked in 1.5 s"
    assert progress.line(SECOND * 5) is None


def test_quick_loading_without_scanning_says_nothing() -> None:
    progress = RecoveryProgress()
    for n in range(100):
        progress.begin(n)
        progress.finish()
        assert progress.line(n) is None


def test_a_second_round_counts_from_0() -> None:
    progress = RecoveryProgress()
    progress.begin(0)
    progress.scanned(1000)
    progress.finish()
    progress.begin(10 * SECOND)
    assert progress.line(12 * SECOND) == "0 of 1 logs loaded, 0 MB checked in 2.0 s"


def test_the_bytes_to_check_are_those_of_segments_beyond_the_recovery_point(tmp_path: Path) -> None:
    for base, size in ((0, 100), (50, 20), (70, 3)):
        Path(files.path(str(tmp_path), base, files.LOG)).write_bytes(bytes(size))
    Path(files.path(str(tmp_path), 70, files.INDEX)).write_bytes(bytes(1000))
    assert [bytes_from(str(tmp_path), offset) for offset in (0, 49, 50, 69, 70, 500)] == [
        123,
        123,
        23,
        23,
        3,
        3,
    ]
    assert bytes_from(str(tmp_path / "none"), 0) == 0
    (tmp_path / "empty").mkdir()
    assert bytes_from(str(tmp_path / "empty"), 0) == 0


class Checkpoints:
    def __init__(self, recovery_points: dict[TopicPartition, int], log_dir: Path) -> None:
        self._points = recovery_points
        self._first_dirty = LogDir(str(log_dir)).cleaner_offsets()

    def at_start(self, log_dir: str) -> tuple[dict[TopicPartition, int], ...]:
        return self._points, {}, self._first_dirty


def opened(
    log_dir: Path, expiration_ms: int = DAY_MS, clean: bool = True, recovery_point: int | None = None,
    role: Lead | None = None,
) -> LoadedLog:  # fmt: skip
    """The log t-0, as a start of an IO worker loads it."""
    config, _ = BrokerConfig.load({"log.dirs": str(log_dir)})
    context = SimpleNamespace(
        clean_dirs=frozenset([str(log_dir)] if clean else ()), same_boot_dirs=frozenset([str(log_dir)]),
        first_start=True, shared=SimpleNamespace(slots=Slot.table(4)), closed_logs={}, config=config,
        log_dirs=(str(log_dir),), index=0,
    )  # fmt: skip
    table = ProducerTable(64)
    table.expiration_ms = expiration_ms
    finished = threading.Event()
    points = {} if recovery_point is None else {("t", 0): recovery_point}
    openings = Openings(context, Checkpoints(points, log_dir), table, finished.set)
    message = OpenPartition(3, 1, "t", 0, TOPIC_ID, str(log_dir), 0, topic_config(), role)
    openings.load(Opening(message), None)
    assert finished.wait(30)
    openings.close()
    (opening,) = openings.take()
    assert opening.error is None
    assert opening.loaded is not None
    return opening.loaded


def test_producers_expire_at_a_start_by_the_setting(tmp_path: Path) -> None:
    two_days_ago = wall_clock_ms() - 2 * DAY_MS
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], [two_days_ago], producer_id=7, producer_epoch=0, base_sequence=0))
    log.partition.close()
    assert [entry.producer_id for entry in opened(log.folder.parent, 3 * DAY_MS).producers] == [7]
    assert not opened(log.folder.parent, DAY_MS).producers


@pytest.mark.parametrize("replicated", [True, False])
def test_a_start_does_not_know_which_markers_a_replicated_logs_high_watermark_has_passed(
    tmp_path: Path, replicated: bool
) -> None:
    """The high watermark begins at the log's start, and may rest between a transaction's records
    and its marker while a replica copies."""
    log = Log(tmp_path)
    log.open()
    for sequence in (0, 1):
        log.append(batch(0, [b"v"], attributes=0x10, producer_id=7, producer_epoch=1, base_sequence=sequence))
        log.append(end_marker(0, 7, 1, commit=True))
    log.partition.abandon()
    role = Lead(3, 1, (1,), ((1, 0),), 1) if replicated else None
    assert opened(log.folder.parent, clean=False, role=role).ended == ([(0, 1), (2, 3)] if replicated else [])


@pytest.mark.parametrize(("torn", "written"), [(True, 2), (False, 3)])
def test_a_recovery_point_above_the_logs_end_is_lowered_before_the_log_is_served(
    tmp_path: Path, torn: bool, written: int
) -> None:
    """Otherwise new records below the old point would not be scanned after a power cut."""
    log = Log(tmp_path)
    log.open()
    for _ in range(3):
        log.append(batch(0, [b"v"]))
    log.partition.abandon()
    (path,) = log.folder.glob("*.log")
    if torn:
        path.write_bytes(path.read_bytes()[:-1])
    log_dir = LogDir(str(log.folder.parent))
    log_dir.update_recovery_points({("t", 0): 3, ("other", 0): 9})
    assert opened(log.folder.parent, clean=False, recovery_point=3).active.next_offset == written
    assert log_dir.recovery_points() == {("t", 0): written, ("other", 0): 9}


def test_a_first_dirty_offset_above_the_logs_end_is_lowered_before_the_log_is_served(tmp_path: Path) -> None:
    """Otherwise new records below it would pass for clean: their tombstones would go before the
    records that these delete."""
    log = Log(tmp_path)
    log.open()
    for _ in range(3):
        log.append(batch(0, [b"v"]))
    log.partition.abandon()
    (path,) = log.folder.glob("*.log")
    path.write_bytes(path.read_bytes()[:-1])
    log_dir = LogDir(str(log.folder.parent))
    log_dir.update_cleaner_offsets({("t", 0): 3, ("other", 0): 9})
    assert opened(log.folder.parent, clean=False).active.next_offset == 2
    assert log_dir.cleaner_offsets() == {("t", 0): 2, ("other", 0): 9}


@pytest.mark.parametrize(("kept", "end"), [(True, 3), (False, 1)])
def test_the_mark_counts_as_long_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool, end: int
) -> None:
    """Control removes it if it takes over a folder of unknown origin. The second of three batches
    is damaged."""
    monkeypatch.setattr(recovery, "UNSURE_BYTES", 0)
    log = Log(tmp_path)
    log.open()
    for _ in range(3):
        log.append(batch(0, [b"v"]))
    log.partition.abandon()
    (path,) = log.folder.glob("*.log")
    content = bytearray(path.read_bytes())
    content[len(content) // 3 + 65] ^= 1
    path.write_bytes(content)
    if kept:
        boot_mark.write(str(log.folder.parent))
    assert opened(log.folder.parent, clean=False).active.next_offset == end
