"""Few logs hold files open: they open at the first append, the longest quiet ones rest, and nothing
unsynced does."""

from pathlib import Path

from kbroker.io.append.rows import AppendRow
from kbroker.io.log_dirs.file_handles import FILES_OF_A_LOG, MARGIN, SHARE, SPARE, FileHandles, logs_within
from tests.descriptors import open_files
from tests.io.append.plain_append import Log
from tests.io.node import Node
from tests.log.batch_bytes import batch


def test_a_log_opens_its_files_for_appends_and_again_after_a_pause(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    before = open_files()
    assert log.row[AppendRow.LOG_FD] == AppendRow.NO_FD
    log.append(batch(0, [b"one"]))
    assert open_files() == before + FILES_OF_A_LOG
    log.partition.active.close_files()
    assert open_files() == before
    log.append(batch(0, [b"two"]))
    log.partition.active.close_files()
    log.partition.roll(log.now_ms)
    log.append(batch(0, [b"three"]))
    log.reopen()
    assert log.partition.log_end == 3


def test_the_longest_quiet_logs_are_synced_first_and_rest_afterwards(tmp_path: Path) -> None:
    node = Node(tmp_path, 16)
    handles = FileHandles(node.rows, limit=15, sync=node.sync, failed=node.fail)
    assert handles.close_idle(node.get) == 0  # nothing is synced yet
    assert node.synced == [0, 1]
    assert node.open == list(range(16))
    assert handles.close_idle(node.get) == 2
    assert node.open == list(range(2, 16))


def test_logs_rest_only_above_the_limit(tmp_path: Path) -> None:
    node = Node(tmp_path, 8)
    node.sync(range(8))
    handles = FileHandles(node.rows, limit=8, sync=node.sync, failed=node.fail)
    for _ in range(8):
        handles.opened(node.get)
    assert len(node.open) == 8
    assert handles.opened(node.get) == 7
    assert node.open == list(range(1, 8))


def test_far_above_the_limit_no_connection_waits_for_threads(tmp_path: Path) -> None:
    node = Node(tmp_path, MARGIN + 8)
    handles = FileHandles(node.rows, limit=7, sync=node.sync, failed=node.fail)
    resting = handles.close_idle(node.get)
    assert resting == (MARGIN + 8) // SHARE
    assert node.synced == []
    assert node.open == list(range(resting, MARGIN + 8))
    assert all(log.partition.durability.is_synced for log in list(node.logs.values())[:resting])


def test_a_log_that_was_appended_to_after_its_sync_does_not_rest(tmp_path: Path) -> None:
    node = Node(tmp_path, 16)
    node.sync(range(16))
    node.logs[0].append(batch(0, [b"later"]))
    node.synced.clear()
    handles = FileHandles(node.rows, limit=15, sync=node.sync, failed=node.fail)
    assert handles.close_idle(node.get) == 1
    assert node.open == [0, *range(2, 16)]
    assert node.synced == [0]


def test_the_limit_leaves_descriptors_for_everything_else() -> None:
    assert logs_within(20_000) * FILES_OF_A_LOG + SPARE <= 20_000
    assert logs_within(100) == 16
