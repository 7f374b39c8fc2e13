"""Few logs hold files open: they open at the first append, the longest quiet ones rest, and nothing
unsynced does."""

import errno
import resource
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.log_dirs import file_handles
from kbroker.io.log_dirs.file_handles import (
    FILES_OF_A_LOG,
    MARGIN,
    SHARE,
    SPARE,
    FileHandles,
    logs_within,
    process_limit,
)
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
    assert [logs_within(SPARE + each) for each in (16 * 3, 17 * 3 - 1, 17 * 3, 300)] == [16, 16, 17, 100]


def test_the_limit_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (SPARE + 300, 1 << 20))
    assert process_limit() == 100


def test_the_only_open_log_stays_open(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.sync([0])
    handles = FileHandles(node.rows, limit=0, sync=node.sync, failed=node.fail)
    assert handles.close_idle(node.get) == 0
    assert node.open == [0]


def test_a_search_that_closes_nothing_yet_is_not_repeated_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path, 16)
    handles = FileHandles(node.rows, limit=15, sync=node.sync, failed=node.fail)
    assert [handles.opened(node.get) for _ in range(15)] == list(range(1, 16))
    assert node.synced == []
    rest = MARGIN // 4
    assert handles.opened(node.get) == 15 - rest
    assert node.synced == [0, 1]
    assert [handles.opened(node.get) for _ in range(rest)] == list(range(16 - rest, 16))
    assert len(node.open) == 16
    assert handles.opened(node.get) == 14
    assert node.open == list(range(2, 16))


def test_with_as_many_open_logs_as_the_limit_the_next_search_waits(tmp_path: Path) -> None:
    node = Node(tmp_path, 9)
    node.sync(range(9))
    handles = FileHandles(node.rows, limit=8, sync=node.sync, failed=node.fail)
    assert [handles.opened(node.get) for _ in range(9)][-1] == 8 - MARGIN // 4
    assert node.open == list(range(1, 9))


def test_few_logs_are_synced_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_handles, "MAX_SYNCS", 1)
    node = Node(tmp_path, 16)
    FileHandles(node.rows, limit=15, sync=node.sync, failed=node.fail).close_idle(node.get)
    assert node.synced == [0]


@pytest.mark.parametrize(("limit", "closed", "synced"), [(8, 0, [0, 1]), (7, 2, [])])
def test_threads_sync_as_long_as_the_margin_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, closed: int, synced: list[int]
) -> None:
    monkeypatch.setattr(file_handles, "MARGIN", 8)
    node = Node(tmp_path, 16)
    handles = FileHandles(node.rows, limit, sync=node.sync, failed=node.fail)
    assert (handles.close_idle(node.get), node.synced) == (closed, synced)


@pytest.mark.parametrize(
    ("number", "reported"), [(errno.EIO, 1), (errno.EMFILE, 0), (errno.ENFILE, 0), (errno.ENOSPC, 1)]
)
def test_a_log_whose_sync_fails_here_is_reported_and_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reported: int
) -> None:
    """Without a descriptor for the sync nothing has failed: it would take the log dir offline."""
    monkeypatch.setattr(file_handles, "MARGIN", 0)
    node, error = Node(tmp_path, 16), OSError(number, "broken")
    first = node.logs[0].partition
    failed: list[tuple[str, OSError]] = []

    def fail() -> None:
        raise error

    monkeypatch.setattr(first.durability, "flush", fail)
    handles = FileHandles(node.rows, 7, node.sync, lambda folder, why: failed.append((folder, why)))
    assert handles.close_idle(node.get) == 1
    assert failed == [(first.folder, error)] * reported
    assert node.open == [0, *range(2, 16)]


def test_a_log_that_takes_no_appends_keeps_its_files(tmp_path: Path) -> None:
    node = Node(tmp_path, 16)
    node.sync(range(16))
    node.rows[0, AppendRow.STATE] = AppendState.CLOSED
    handles = FileHandles(node.rows, limit=15, sync=node.sync, failed=node.fail)
    assert handles.close_idle(node.get) == 1
    assert node.open == [0, *range(2, 16)]
