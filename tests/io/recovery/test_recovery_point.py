"""The recovery point of a log that was just loaded."""

import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.recovery import recovery
from kbroker.io.recovery.segment_scan import Scan
from kbroker.log import files
from tests.io.append.plain_append import topic_config
from tests.io.recovery.torn_log import appended, filled, indexes, load
from tests.syncs import Syncs


@pytest.mark.parametrize("recovery_point", [0, 20])
def test_without_write_caching_all_that_recovery_has_read_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovery_point: int
) -> None:
    """It is served as durable at once."""
    log = filled(tmp_path, write_caching=False)
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    syncs = Syncs(log.folder, monkeypatch)
    loaded = load(log, recovery_point=recovery_point)
    assert loaded.recovery_point == loaded.active.next_offset == 20
    suffixes = (files.LOG, files.INDEX, files.TIME_INDEX)
    scanned = bases if recovery_point == 0 else bases[-1:]
    expected = {files.file_name(base, suffix) for base in scanned for suffix in suffixes}
    assert expected | {"."} <= set(syncs.taken())


def test_with_write_caching_recovery_leaves_the_recovery_point(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert load(log, recovery_point=11).recovery_point == 11
    assert load(log, recovery_point=99).recovery_point == 20
    assert load(log, clean=True).recovery_point == 20


@pytest.mark.parametrize("entries", ["good", "shifted", "like an old batch", "later", "none"])
def test_the_index_finds_the_recovery_point_if_its_entry_fits_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str
) -> None:
    """Headers before it are read once, to rebuild the indexes. Batches after it are checked,
    whatever the index has: it may not be on disk."""
    log = filled(tmp_path, segment_bytes=1 << 20)
    index, data = (Path(files.path(str(log.folder), 0, each)) for each in (files.INDEX, files.LOG))
    written = list(struct.iter_unpack(">ii", index.read_bytes()))
    assert len(written) > 10
    if entries != "good":
        later = written[-1][1]
        changed = {
            "shifted": [(offset, position + 1) for offset, position in written],
            # there the offset 14 is in the place of a length, and the leader epoch in that of the
            # magic
            "like an old batch": [(offset, later // 19 * 14 - 4) for offset, _ in written],
            "later": [(offset, later) for offset, _ in written],
            "none": [],
        }[entries]
        index.write_bytes(b"".join(struct.pack(">ii", *each) for each in changed))
    starts: list[int] = []

    def scanned(*args: Any, **options: Any) -> Scan:
        if options.get("crc_from", 0) is None:
            starts.append(options["start"])
        return Scan(*args, **options)

    monkeypatch.setattr(recovery, "Scan", scanned)
    damaged = bytearray(data.read_bytes())
    size = len(damaged) // 20
    for batch in (3, 17):
        damaged[batch * size + 100] ^= 1
    data.write_bytes(damaged)
    loaded = load(log, recovery_point=15)
    assert loaded.active.next_offset == 17, "the damage in batch 3 is below the recovery point"
    assert starts == [max(at for offset, at in written if offset < 15) if entries == "good" else 0]


@pytest.mark.parametrize(("missing", "found"), [(0, True), (1, False)])
def test_an_index_entry_is_followed_no_further_than_a_batch_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, found: bool
) -> None:
    """What a stale entry points to may have the length of a whole segment, which was read into
    memory."""
    log = filled(tmp_path, segment_bytes=1 << 20)
    size = Path(files.path(str(log.folder), 0, files.LOG)).stat().st_size // 20
    log.config = topic_config(index_interval_bytes=100, max_message_bytes=size - missing)
    monkeypatch.setattr(recovery, "BUFFER_BYTES", 0)
    starts: list[int] = []

    def scanned(*args: Any, **options: Any) -> Scan:
        if options.get("crc_from", 0) is None:
            starts.append(options["start"])
        return Scan(*args, **options)

    monkeypatch.setattr(recovery, "Scan", scanned)
    assert load(log, recovery_point=15).active.next_offset == 20
    assert [start > 0 for start in starts] == [found]


def test_after_a_clean_stop_the_active_segment_is_on_disk_and_no_other_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = appended(tmp_path, write_caching=False)
    log.partition.close()
    *others, active = (segment.base_offset for segment in files.list_segments(str(log.folder)))
    assert others
    syncs = Syncs(log.folder, monkeypatch)
    assert load(log, clean=True).recovery_point == 20
    synced = set(syncs.taken())
    suffixes = (files.LOG, files.INDEX, files.TIME_INDEX)
    assert {files.file_name(active, suffix) for suffix in suffixes} | {"."} <= synced
    assert not {files.file_name(base, suffix) for base in others for suffix in suffixes} & synced


@pytest.mark.parametrize(
    ("damaged", "same_boot", "end"),
    [([3], True, 20), ([3], False, 3), ([17], True, 17), ([3, 17], True, 3), ([3, 17], False, 3)],
)
def test_bytes_that_the_kernel_has_kept_are_checked_at_the_end_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: list[int], same_boot: bool, end: int
) -> None:
    """The last five of 20 batches are in the part that is always checked. Damage there shows that
    the kernel has lost something, so all are checked."""
    log = filled(tmp_path, segment_bytes=1 << 20)
    data = Path(files.path(str(log.folder), 0, files.LOG))
    content = bytearray(data.read_bytes())
    size = len(content) // 20
    monkeypatch.setattr(recovery, "UNSURE_BYTES", 5 * size - 7)  # which begins within a batch
    for batch in damaged:
        content[batch * size + 100] ^= 1
    data.write_bytes(content)
    loaded = log.load(False, 0, 0, None, same_boot=same_boot)
    assert loaded.active.next_offset == end
    assert loaded.recovery_point == 0, "it is not on disk"


@pytest.mark.parametrize("lost", [range(6, 20), range(6, 7)], ids=["to the end", "in between"])
def test_a_batch_whose_end_the_kernel_has_lost_is_cut_with_what_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: range
) -> None:
    """A device that fails may leave zeros from within batch 5 on. The fault is in the header of
    batch 6, far before the end that is always checked."""
    log = filled(tmp_path, segment_bytes=1 << 20)
    data = Path(files.path(str(log.folder), 0, files.LOG))
    content = bytearray(data.read_bytes())
    size = len(content) // 20
    monkeypatch.setattr(recovery, "UNSURE_BYTES", size)
    start, end = lost.start * size - 20, lost.stop * size
    content[start:end] = bytes(end - start)
    data.write_bytes(content)
    loaded = log.load(False, 0, 0, None, same_boot=True)
    assert loaded.active.next_offset == 5
    assert data.stat().st_size == 5 * size
    found = indexes(log.folder)
    assert load(log).active.next_offset == 5
    assert indexes(log.folder) == found, "they are those of the batches that are left"


def test_a_torn_last_batch_is_no_reason_to_check_what_the_kernel_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, segment_bytes=1 << 20)
    data = Path(files.path(str(log.folder), 0, files.LOG))
    content = bytearray(data.read_bytes())
    size = len(content) // 20
    monkeypatch.setattr(recovery, "UNSURE_BYTES", 2 * size)
    content[3 * size + 100] ^= 1
    data.write_bytes(content[:-30])
    assert log.load(False, 0, 0, None, same_boot=True).active.next_offset == 19


def test_a_header_is_checked_even_if_the_kernel_has_kept_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, segment_bytes=1 << 20)
    data = Path(files.path(str(log.folder), 0, files.LOG))
    damaged = bytearray(data.read_bytes())
    size = len(damaged) // 20
    monkeypatch.setattr(recovery, "UNSURE_BYTES", size)
    damaged[6 * size + 16] = 7  # magic
    data.write_bytes(damaged)
    assert log.load(False, 0, 0, None, same_boot=True).active.next_offset == 6


def test_records_that_a_failed_sync_may_have_dropped_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it the kernel kept them in memory as if they were on disk. The next start in the same
    boot synced them with success, and a power cut took what was acknowledged then."""
    log = filled(tmp_path, segment_bytes=1 << 20)
    path = Path(files.path(str(log.folder), 0, files.LOG))
    content, modified_ns = path.read_bytes(), path.stat().st_mtime_ns
    written: list[tuple[int, int]] = []
    pwrite, errors = os.pwrite, list[OSError]()

    def note(fd: int, data: bytes, position: int) -> int:
        if Path(f"/proc/self/fd/{fd}").readlink() == path:
            written.append((position, len(data)))
            if errors:
                raise errors.pop()
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", note)
    log.load(recovery_point=10, same_boot=True)
    load(log, clean=True, recovery_point=10)
    assert written == []
    half = [(len(content) // 2, len(content) // 2)]
    assert load(log, recovery_point=10).active.next_offset == 20
    assert written == half
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, modified_ns)
    errors.append(OSError(errno.ENOSPC, "no room for a copy"))
    assert load(log, recovery_point=10).active.next_offset == 20
    errors.append(OSError(errno.EIO, "the disk fails again"))
    with pytest.raises(OSError, match="fails again"):
        load(log, recovery_point=10)
    assert written == half * 3
    os.utime(path, (1, 1))
    load(log, recovery_point=10)
    assert written == half * 3, "after a boot the memory has only what is on disk"


def test_a_roll_at_the_recovery_point_loses_no_index_entry(tmp_path: Path) -> None:
    """The .log was synced up to there, the indexes were not. A power cut before the sync of the
    rolled segment left its last time entries out, and retention deleted it too early."""
    log = appended(tmp_path, segment_bytes=1 << 20)
    partition = log.partition
    partition.durability.flush()
    assert partition.recovery_point == 20
    checkpointed = partition.durability.checkpointed
    partition.roll(log.now_ms)
    before = indexes(log.folder)
    assert partition.durability.checkpointed == checkpointed == 19
    partition.abandon()
    for suffix in (files.INDEX, files.TIME_INDEX):
        os.truncate(files.path(str(log.folder), 0, suffix), 24)
    loaded = load(log, recovery_point=checkpointed)
    assert [segment.base_offset for segment in loaded.closed] == [0]
    assert indexes(log.folder) == before


def test_the_recovery_point_of_synced_segments_is_written_as_it_is(tmp_path: Path) -> None:
    """A start would read the headers of one more segment."""
    log = appended(tmp_path, segment_bytes=1 << 20)
    log.partition.roll(log.now_ms)
    job = log.partition.durability.begin(rolled_only=True)
    job.run()
    log.partition.durability.finish(job)
    assert log.partition.durability.checkpointed == log.partition.recovery_point == 20
    log.partition.close()
    assert log.partition.durability.checkpointed == 20
