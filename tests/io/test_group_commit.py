"""Syncs in compiled threads: every sync has one result, with the error of its own sync."""

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.io.group_commit import RECORD, GroupCommit, LogSync, LogSyncResult
from kbroker.io.partition.log_durability import FlushJob


@pytest.fixture
def group() -> Iterator[GroupCommit]:
    made = GroupCommit(lambda: 0)
    yield made
    made.close()


def sync(slot: int, fd: int, names: bool = False, folder: str = "") -> LogSync:
    return LogSync(
        slot, 1, FlushJob(folder, (), fd, next_offset=slot, segment_base=0, position=0, names=names)
    )


def results(group: GroupCommit, count: int) -> list[LogSyncResult]:
    found: list[LogSyncResult] = []
    while len(found) < count:
        group.wait()
        reported = os.read(group.fileno(), 100 * RECORD.size)
        found += [group.result(*record) for record in RECORD.iter_unpack(reported)]
    return found


def open_log(folder: Path, name: str) -> int:
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"records")
    return fd


def test_every_sync_has_one_result_and_its_descriptor_is_closed(group: GroupCommit, tmp_path: Path) -> None:
    fds = [open_log(tmp_path, f"{n}.log") for n in range(40)]
    group.ask(sync(slot, fd) for slot, fd in enumerate(fds))
    done = results(group, 40)
    assert sorted((one.sync.slot, one.errno) for one in done) == [(slot, 0) for slot in range(40)]
    assert all(one.nanoseconds > 0 for one in done)
    with pytest.raises(BlockingIOError):
        os.read(group.fileno(), RECORD.size)
    for fd in fds:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_a_failed_sync_is_reported_with_its_errno_and_the_others_continue(
    group: GroupCommit, tmp_path: Path
) -> None:
    read, write = os.pipe()  # a pipe cannot be synced
    os.close(write)
    group.ask([sync(1, read), sync(2, open_log(tmp_path, "2.log"))])
    assert {one.sync.slot: one.errno for one in results(group, 2)} == {1: errno.EINVAL, 2: 0}


def test_a_sync_of_several_syncs_is_completed(group: GroupCommit, tmp_path: Path) -> None:
    group.ask([sync(1, open_log(tmp_path, "1.log"), names=True, folder=str(tmp_path))])
    (done,) = results(group, 1)
    assert (done.sync.slot, done.errno) == (1, 0)
    group.ask([sync(2, open_log(tmp_path, "2.log"), names=True, folder=str(tmp_path / "gone"))])
    (failed,) = results(group, 1)
    assert (failed.sync.slot, failed.errno) == (2, errno.ENOENT)


def test_more_syncs_than_the_pipe_holds_wait_for_their_turn(group: GroupCommit, tmp_path: Path) -> None:
    count = 4000
    for slot in range(count):
        group.ask([sync(slot, os.open(tmp_path, os.O_RDONLY))])
    assert len({one.sync.slot for one in results(group, count)}) == count


def test_the_descriptor_is_readable_when_there_are_results(group: GroupCommit, tmp_path: Path) -> None:
    poll = select.poll()
    poll.register(group.fileno(), select.POLLIN)
    assert poll.poll(0) == []
    group.ask([sync(1, open_log(tmp_path, "1.log"))])
    assert poll.poll(10_000)


def test_threads_start_with_the_first_sync_of_an_active_segment(group: GroupCommit, tmp_path: Path) -> None:
    """The syncs of most brokers are only of segments that were rolled."""
    group.ask([sync(1, -1, names=True, folder=str(tmp_path))])
    assert [one.errno for one in results(group, 1)] == [0]
    assert group.jobs == -1
    group.ask([sync(2, open_log(tmp_path, "2.log"))])
    assert group.jobs >= 0
    assert [one.errno for one in results(group, 1)] == [0]
