"""Where recovery begins and ends, at its bounds: log starts, recovery points, published ends."""

import ctypes
import errno
import itertools
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from kbroker.io.files import segment as segment_files
from kbroker.io.recovery import recovery
from kbroker.io.recovery.loaded_log import TrustedEnd
from kbroker.log import checkpoint, files, transaction_index
from kbroker.log.transaction_index import AbortedTransaction
from tests.io.append.plain_append import NOW, Log
from tests.io.deaths import Deaths
from tests.io.recovery.torn_log import filled, indexes, load, offsets
from tests.log.batch_bytes import batch, end_marker


def test_a_last_batch_whose_end_is_zeros_is_cut(tmp_path: Path) -> None:
    """A power cut may leave so the blocks that were not written."""
    log = filled(tmp_path / "log", 9)
    last = sorted(log.folder.glob("*.log"))[-1]
    data = last.read_bytes()
    size = len(batch(0, [b"x" * 60], [NOW]))
    for kept in range(size - 1):  # the last byte is zero itself
        last.write_bytes(data[: len(data) - size + kept] + bytes(size - kept))
        loaded = load(log)
        assert (loaded.active.next_offset, loaded.truncated_bytes) == (8, size)
        assert last.stat().st_size == len(data) - size


def test_a_log_of_which_all_records_were_deleted_keeps_its_files(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 6)
    before = offsets(log.folder)
    loaded = log.load(False, 0, 6)
    assert (loaded.log_start, loaded.active.next_offset, loaded.deleted) == (6, 6, [])
    assert offsets(log.folder) == before


def test_a_log_begins_no_earlier_than_its_first_segment(tmp_path: Path) -> None:
    """Retention has removed one since the log start was written."""
    log = filled(tmp_path / "log", 12)
    log.reopen(clean=False, epoch=4)
    log.partition.abandon()
    first, second, *_ = (segment.base_offset for segment in files.list_segments(str(log.folder)))
    (log.folder / f"{first:020d}.log").unlink()
    loaded = load(log)
    assert loaded.log_start == second
    assert all(start >= second for _, start in loaded.epochs.entries)
    assert log.load(False, 0, second + 1).log_start == second + 1


def test_a_log_that_starts_over_has_no_leader_epochs_from_before(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 6)
    log.reopen(clean=False, epoch=4)
    log.append(batch())
    log.partition.abandon()
    assert log.load(False, 0, 100).epochs.entries == ()


def test_blocks_that_a_crash_left_reserved_are_freed(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 4)
    path = sorted(log.folder.glob("*.log"))[-1]
    size = path.stat().st_size
    fd = os.open(path, os.O_RDWR)
    try:
        # FALLOC_FL_KEEP_SIZE: blocks beyond the end, as they are reserved for appends
        if ctypes.CDLL(None).fallocate(fd, 1, ctypes.c_long(size), ctypes.c_long(64 << 20)) != 0:
            pytest.skip("this file system reserves no blocks")
    finally:
        os.close(fd)
    if path.stat().st_blocks * 512 < 64 << 20:
        pytest.skip("this file system does not count reserved blocks")
    load(log, clean=True)
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 < 16 << 20


def test_files_that_a_cut_leaves_after_a_closed_segment_are_deleted(tmp_path: Path) -> None:
    """Also after a clean stop, where only the segment without an index is looked at."""
    for clean in (False, True):
        log = filled(tmp_path / f"log-{clean}", 20)
        first, second, *later = (segment.base_offset for segment in files.list_segments(str(log.folder)))
        path = log.folder / f"{second:020d}.log"
        os.truncate(path, path.stat().st_size - 1)
        if clean:
            (log.folder / f"{second:020d}.index").unlink()
        loaded = load(log, clean=clean)
        assert loaded.active.base_offset == second
        assert loaded.active.next_offset == later[0] - 1
        assert [segment.base_offset for segment in files.list_segments(str(log.folder))] == [first, second]
        assert {Path(name).name[:20] for name in loaded.deleted} == {f"{base:020d}" for base in later}
        assert path.stat().st_size == loaded.active.position


def test_the_recovery_point_may_be_where_a_segment_begins(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 20)
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    sizes = {base: (log.folder / f"{base:020d}.log").stat().st_size for base in bases}
    assert load(log, recovery_point=bases[-1]).scanned_bytes == sizes[bases[-1]]
    damaged = log.folder / f"{bases[-1]:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    assert load(log, recovery_point=bases[-1]).active.next_offset == bases[-1], "its first batch is checked"


def test_a_scanned_segment_knows_its_largest_timestamp(tmp_path: Path) -> None:
    """Its time index ends with it, however large the interval of the entries is."""
    log = filled(tmp_path / "log", 20, index_interval_bytes=100_000)
    loaded = load(log)
    ends = [*(segment.base_offset for segment in loaded.closed[1:]), loaded.active.base_offset]
    assert len(ends) > 2
    assert [segment.max_timestamp for segment in loaded.closed] == [NOW + end - 1 for end in ends]
    for segment in loaded.closed:
        times = (log.folder / f"{segment.base_offset:020d}.timeindex").read_bytes()
        assert struct.unpack(">qi", times[-12:])[0] == segment.max_timestamp


def test_the_next_epoch_is_found_in_the_batches(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=3)
    log.append(batch())
    log.partition.role.set_leader_epoch(4)
    log.append(batch())
    log.partition.abandon()
    checkpoint.write_leader_epochs(str(log.folder), [(3, 0)])
    assert load(log).epochs.entries == ((3, 0), (4, 1))


def test_an_end_that_is_published_where_the_file_ends_is_trusted(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 8, index_interval_bytes=0)
    base = files.list_segments(str(log.folder))[-1].base_offset
    position = (log.folder / f"{base:020d}.log").stat().st_size
    assert load(log, trusted_end=TrustedEnd(base, position, 8)).scanned_bytes == 0
    loaded = load(log, trusted_end=TrustedEnd(base, position, 7))
    assert loaded.scanned_bytes > 0, "another offset than the one that the file ends with"
    assert loaded.active.next_offset == 8


def test_no_entry_beyond_a_trusted_end_is_left_in_the_indexes(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 4, index_interval_bytes=0, segment_bytes=10_000)
    path = log.folder / f"{0:020d}.log"
    size = path.stat().st_size // 4
    load(log, trusted_end=TrustedEnd(0, 2 * size, 2))
    assert path.stat().st_size == 2 * size
    data = (log.folder / f"{0:020d}.index").read_bytes()
    assert [offset for offset, _ in struct.iter_unpack(">ii", data)] == [1]
    data = (log.folder / f"{0:020d}.timeindex").read_bytes()
    assert max(offset for _, offset in struct.iter_unpack(">qi", data)) == 1


def test_an_impossible_transaction_index_means_a_scan(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 12)
    _, second, *_ = (segment.base_offset for segment in files.list_segments(str(log.folder)))
    path = log.folder / f"{second:020d}.txnindex"
    path.write_bytes(AbortedTransaction(1, 0, second - 1, second).pack())
    loaded = load(log, clean=True)
    assert loaded.scanned_bytes == (log.folder / f"{second:020d}.log").stat().st_size
    assert path.read_bytes() == b""


def test_an_abort_whose_entry_its_process_did_not_write_is_in_the_transaction_index(tmp_path: Path) -> None:
    """The marker was in the log when the process died, and its end was published."""
    log = aborted(tmp_path)
    end = (log.folder / f"{0:020d}.log").stat().st_size
    loaded = load(log, trusted_end=TrustedEnd(0, end, 2))
    assert loaded.scanned_bytes == 0
    assert transaction_index.read_index(str(log.folder), 0) == [AbortedTransaction(1, 0, 1, 2)]
    assert loaded.has_aborted
    assert loaded.first_unstable == -1


def test_an_abort_beyond_a_published_end_is_not_in_the_transaction_index(tmp_path: Path) -> None:
    log = aborted(tmp_path)
    transaction_index.append_entry(str(log.folder), 0, AbortedTransaction(1, 0, 1, 2))
    end = (log.folder / f"{0:020d}.log").stat().st_size - len(end_marker(0, 1, 1, commit=False))
    loaded = load(log, trusted_end=TrustedEnd(0, end, 1))
    assert loaded.scanned_bytes == 0
    assert transaction_index.read_index(str(log.folder), 0) == []
    assert loaded.first_unstable == 0


def aborted(root: Path) -> Log:
    """A transaction of one record and its abort; without a transaction index, nothing closed."""
    log = Log(root)
    log.open()
    log.append(batch(0, [b"v"], attributes=0x10, producer_id=1, producer_epoch=1, base_sequence=0))
    log.append(end_marker(0, 1, 1, commit=False))
    log.partition.abandon()
    return log


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_indexes_that_were_not_rebuilt_to_their_end_are_rebuilt_by_the_next_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """There was no room, or the process was killed. No other load scans the segment: with a part
    of its time index retention deleted it too early."""
    log = filled(tmp_path / "log", index_interval_bytes=300)
    writes, write = itertools.count(), files.pwrite_all
    log.reopen(clean=False)
    log.partition.close()
    expected = indexes(log.folder)
    second = files.list_segments(str(log.folder))[1].base_offset
    for suffix in (files.INDEX, files.TIME_INDEX):
        Path(files.path(str(log.folder), second, suffix)).unlink()

    def full(fd: int, data: bytes, at: int) -> None:
        if next(writes) == failing:
            raise OSError(errno.ENOSPC, "no room")
        write(fd, data, at)

    monkeypatch.setattr(files, "pwrite_all", full)
    with pytest.raises(OSError, match="no room"):
        load(log, clean=True)
    monkeypatch.undo()
    load(log, clean=True)
    assert indexes(log.folder) == expected


def test_a_transaction_index_that_was_not_rebuilt_to_its_end_is_rebuilt_by_the_next_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a folder that Apache Kafka wrote: aborted records were served as committed ones."""
    log = aborted(tmp_path)
    log.reopen(clean=False)
    log.partition.roll(NOW)
    log.append(batch())
    log.partition.close()
    path = files.path(str(log.folder), 0, files.TXN_INDEX)
    with suppress(OSError):  # not every file system has it
        os.removexattr(path, transaction_index.SEAL)
    Path(files.path(str(log.folder), 0, files.TIME_INDEX)).unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(transaction_index, "append_entry", full)
    with pytest.raises(OSError, match="no room"):
        load(log, clean=True)
    monkeypatch.undo()
    load(log, clean=True)
    assert transaction_index.read_index(str(log.folder), 0) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_recovery_that_dies_while_it_cuts_a_log_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn segment is followed by others. Wherever the start dies, the next one finds the same
    log."""
    log = filled(tmp_path / "log", 20)
    _, second, third, *_ = (segment.base_offset for segment in files.list_segments(str(log.folder)))
    torn = log.folder / f"{second:020d}.log"
    os.truncate(torn, torn.stat().st_size - 1)
    kept = tmp_path / "kept"
    shutil.copytree(log.folder, kept)
    deaths = Deaths(monkeypatch, recovery, segment_files)
    while deaths.next(lambda: load(log)):
        loaded = load(log)
        assert offsets(log.folder) == list(range(third - 1)), deaths.place
        assert loaded.active.next_offset == third - 1
        assert sorted(entry.last_offset for entry in loaded.producers) == [third - 3, third - 2]
        shutil.rmtree(log.folder)
        shutil.copytree(kept, log.folder)
    assert {"recovery: segment scanned", "retention: file renamed"} <= deaths.places
