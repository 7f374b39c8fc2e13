"""After any stop the log is exactly its whole batches, with indexes, producers and epochs to
match."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.io.append.rows import AppendRow
from kbroker.io.files import producer_snapshot
from kbroker.io.openings import create_folder
from kbroker.io.recovery.loaded_log import TrustedEnd
from kbroker.log import checkpoint, files
from kbroker.log.errors import UnsupportedFormat
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.walk import walk
from tests.io.append.plain_append import NOW, Log, names, topic_config
from tests.io.files.snapshot_bytes import encode
from tests.io.recovery.torn_log import filled, indexes, load, offsets
from tests.log.batch_bytes import batch, old_record
from tests.log.folder import Folder


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_valid_batch(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 9)
    last = sorted(log.folder.glob("*.log"))[-1]
    data = last.read_bytes()
    size = len(batch(0, [b"x" * 60], [NOW]))
    for cut in range(size):
        last.write_bytes(data[: len(data) - size + cut])
        loaded = load(log)
        assert loaded.active.next_offset == 8
        assert loaded.truncated_bytes == cut
        assert last.stat().st_size == len(data) - size
        assert [entry.last_offset for entry in loaded.producers] == [6, 7]


@pytest.mark.parametrize("position", ["first", "middle", "last"])
def test_a_flipped_bit_cuts_the_log_before_its_batch(tmp_path: Path, position: str) -> None:
    log = filled(tmp_path / "log", 20)
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    kept = tmp_path / "kept"
    shutil.copytree(log.folder, kept)
    base = {"first": bases[0], "middle": bases[len(bases) // 2], "last": bases[-1]}[position]
    size = len(batch(0, [b"x" * 60], [NOW]))
    # outside the CRC: a changed leader epoch is not noticed, nor an offset that only leaves a gap
    for byte in [*range(8, 12), 16, *range(17, size, 9)]:
        shutil.rmtree(log.folder)
        shutil.copytree(kept, log.folder)
        path = log.folder / f"{base:020d}.log"
        data = bytearray(path.read_bytes())
        data[byte] ^= 0x40
        path.write_bytes(data)
        loaded = load(log)
        assert loaded.active.next_offset == base, byte
        assert offsets(log.folder) == list(range(base))
        assert any(name.endswith(".log.deleted") for name in names(log.folder)) == (base != bases[-1])


def test_offsets_that_go_back_cut_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 5)
    path = log.folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(batch(0, [b"x" * 60], [NOW]))
    data[size * 3 : size * 3 + 8] = (1).to_bytes(8)
    path.write_bytes(data)
    assert load(log).active.next_offset == 3


@pytest.mark.parametrize("jump", [1, 1 << 20, 1 << 56])
def test_an_offset_that_belongs_to_the_next_segment_cuts_the_log(tmp_path: Path, jump: int) -> None:
    log = filled(tmp_path / "log", 20)
    first, second, *_ = files.list_segments(str(log.folder))
    path = log.folder / f"{first.base_offset:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(batch(0, [b"x" * 60], [NOW]))
    last = second.base_offset - 1  # of a batch of one record; no CRC covers its base offset
    data[-size : 8 - size] = (last + jump).to_bytes(8)
    path.write_bytes(data)
    assert load(log).active.next_offset == last
    assert offsets(log.folder) == list(range(last))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "oversized", "odd length"])
def test_indexes_are_rebuilt_when_missing_or_corrupt(
    tmp_path: Path, damage: str, suffix: str, clean: bool
) -> None:
    log = Log(tmp_path / "log", topic_config(segment_bytes=700, index_interval_bytes=100))
    log.open()
    for n in range(20):
        log.append(batch(0, [b"x" * 60], [NOW + n]))
    log.partition.close() if clean else log.partition.abandon()
    want = indexes(log.folder)
    active = f"{log.partition.base_offsets[-1]:020d}{suffix}"
    path = log.folder / active
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "garbage": b"\xff" * 24,
                "oversized": data + bytes(10485760 // 24 * 24),
                "odd length": data + b"\0\0\0",
            }[damage]
        )
    log.reopen(clean=clean)
    for n in range(20, 40):
        log.append(batch(0, [b"x" * 60], [NOW + n]))
    log.partition.close() if clean else log.partition.abandon()
    rebuilt = Log(tmp_path / "again", topic_config(segment_bytes=700, index_interval_bytes=100))
    rebuilt.open()
    for n in range(40):
        rebuilt.append(batch(0, [b"x" * 60], [NOW + n]))
    rebuilt.partition.close() if clean else rebuilt.partition.abandon()
    assert set(want) <= set(indexes(log.folder))
    reader = LogReader(str(log.folder), OpenFiles())
    for offset in range(40):
        place = reader.locate(offset, *WHOLE_LOG)
        assert place is not None
        assert place.base_offset == offset
    if damage != "empty" or not clean:
        assert indexes(log.folder) == indexes(rebuilt.folder)


def test_a_segment_without_index_in_the_middle_of_a_clean_log_gets_one(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    log.reopen(clean=False)
    log.partition.close()
    want = indexes(log.folder)
    middle = log.partition.base_offsets[1]
    (log.folder / f"{middle:020d}.index").unlink()
    load(log, clean=True)
    assert indexes(log.folder) == want


def written(log: Log, sizes: list[int], segment_bytes: int, seed: int) -> list[tuple[int, bytes]]:
    """Appends a batch of each size that fits into a segment, then leaves the log; (end offset,
    batch) of each."""
    made, end = [], 0
    for n, size in enumerate(sizes):
        records = 1 + (n + seed) % 3
        data = batch(
            0, [bytes(size)] * records, [NOW + (n * 7919) % 100] * records,
            producer_id=(n + seed) % 3 - 1, producer_epoch=0, base_sequence=n,
        )  # fmt: skip
        if len(data) > segment_bytes:
            continue
        end += records
        log.append(data)
        made.append((end, data))
    log.partition.abandon()
    return made


def damaged(log: Log, end: int, cut: int, flip: int | None) -> int:
    """Cuts bytes off the active segment, or flips a bit in it; the offset up to which the log is
    whole."""
    base = log.partition.base_offsets[-1]
    active = log.folder / f"{base:020d}.log"
    found = bytearray(active.read_bytes())
    starts = {
        int(placed.position): placed.batch
        for placed in walk(LogReader(str(log.folder), OpenFiles()))
        if placed.segment_base == base
    }
    kept_end = end
    if cut:
        found = found[: max(len(found) - cut, 0)]
        kept_end = max(
            (b.last_offset + 1 for p, b in starts.items() if p + b.size <= len(found)), default=base
        )
    elif flip is not None and starts:
        start = sorted(starts)[flip % len(starts)]
        found[start + 21 + flip % (starts[start].size - 21)] ^= 1 << flip % 8
        kept_end = starts[start].base_offset
    active.write_bytes(found)
    return kept_end


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=25),
    interval=st.integers(0, 600),
    segment_bytes=st.integers(500, 3000),
    recovery_point=st.integers(0, 60),
    cut=st.integers(0, 2000),
    flip=st.integers(0, 100000),
    seed=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_recovery_equals_the_model(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    interval: int,
    segment_bytes: int,
    recovery_point: int,
    cut: int,
    flip: int,
    seed: int,
) -> None:
    """Damage behind the recovery point: the log is then the batches before it, as if nothing else
    had been written."""
    root = tmp_path_factory.mktemp("log")
    config = topic_config(segment_bytes=segment_bytes, index_interval_bytes=interval)
    log = Log(root / "a", config)
    log.open()
    made = written(log, sizes, segment_bytes, seed)
    recovery_point = min(recovery_point, log.partition.base_offsets[-1])
    kept_end = damaged(log, made[-1][0] if made else 0, cut if seed == 1 else 0, flip if seed == 2 else None)
    loaded = load(log, recovery_point=recovery_point)

    model = Log(root / "b", config)
    model.open()
    for end, data in made:
        if end <= kept_end:
            model.append(data)
    if model.partition.base_offsets[-1] != log.partition.base_offsets[-1]:
        model.partition.roll(NOW)  # the damaged log had rolled before the batch that is lost
    model.partition.abandon()
    assert loaded.active.next_offset == kept_end
    assert offsets(log.folder) == offsets(model.folder)
    assert indexes(log.folder) == indexes(model.folder)
    model.reopen(clean=False)
    want = {entry.producer_id: entry.batches[-1] for entry in model.producers.entries(3)}
    assert {entry.producer_id: entry.batches[-1] for entry in loaded.producers} == want
    model.partition.abandon()


def test_only_segments_after_the_recovery_point_are_scanned(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    whole = load(log).scanned_bytes
    assert whole == sum(path.stat().st_size for path in log.folder.glob("*.log"))
    last = (log.folder / f"{bases[-1]:020d}.log").stat().st_size
    assert load(log, recovery_point=bases[-1] + 1).scanned_bytes == last
    assert load(log, clean=True).scanned_bytes == 0


def test_damage_is_searched_after_the_recovery_point_and_not_below(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 6)
    base = files.list_segments(str(log.folder))[0].base_offset
    size = len(batch(0, [b"x" * 60], [NOW]))
    path = log.folder / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[size + 100] ^= 1  # offset 1
    path.write_bytes(data)
    assert load(log, recovery_point=3).active.next_offset == 6
    assert load(log, recovery_point=1).active.next_offset == 1


def test_a_published_end_is_trusted_and_what_follows_is_cut(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 8)
    segments = files.list_segments(str(log.folder))
    base = segments[-1].base_offset
    path = log.folder / f"{base:020d}.log"
    size = len(batch(0, [b"x" * 60], [NOW]))
    end = TrustedEnd(base, path.stat().st_size - size, 7)
    Folder(log.folder).segment(8, [])  # an unfinished roll
    loaded = load(log, trusted_end=end)
    assert (loaded.active.base_offset, loaded.active.position, loaded.active.next_offset) == end[:3]
    assert loaded.scanned_bytes == 0
    assert offsets(log.folder) == list(range(7))
    assert [entry.last_offset for entry in loaded.producers] == [6, 5]


def test_a_published_end_that_does_not_fit_the_files_means_a_scan(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 8)
    base = files.list_segments(str(log.folder))[-1].base_offset
    for end in (TrustedEnd(base, 10**6, 8), TrustedEnd(999, 0, 999)):
        loaded = load(log, trusted_end=end)
        assert loaded.active.next_offset == 8
        assert loaded.scanned_bytes > 0


def test_epochs_of_batches_that_the_checkpoint_lacks_come_back(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=0)
    log.append(batch())
    log.partition.role.set_leader_epoch(5)
    log.append(batch())
    log.partition.abandon()
    checkpoint.write_leader_epochs(str(log.folder), [(0, 0)])
    assert load(log).epochs.entries == ((0, 0), (5, 1))
    (log.folder / files.LEADER_EPOCH_CHECKPOINT).write_text("broken")
    assert load(log).epochs.entries == ((0, 0), (5, 1))
    assert checkpoint.read_leader_epochs(str(log.folder)) == [(0, 0), (5, 1)]


def test_epochs_after_a_torn_tail_are_removed(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=0)
    log.append(batch())
    log.partition.role.set_leader_epoch(5)
    log.append(batch())
    log.partition.abandon()
    os.truncate(log.folder / f"{0:020d}.log", int(log.row[AppendRow.POSITION]) - 1)
    assert load(log).epochs.entries == ((0, 0),)


def test_a_log_that_ends_below_its_start_starts_over(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 6)
    loaded = log.load(False, 0, 100)
    assert (loaded.log_start, loaded.active.next_offset, loaded.active.base_offset) == (100, 100, 100)
    assert sorted(name for name in names(log.folder) if name.endswith(".log")) == [f"{100:020d}.log"]
    assert loaded.producers == []


def test_old_message_formats_are_refused_not_cut(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 2)
    path = log.folder / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data + old_record(2))
    for clean in (True, False):
        with pytest.raises(UnsupportedFormat, match="format 0 or 1"):
            load(log, clean=clean)
    assert path.read_bytes() == data + old_record(2)


def test_progress_counts_every_scanned_byte(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    seen: list[int] = []
    loaded = log.load(progress=seen.append)
    assert sum(seen) == loaded.scanned_bytes == sum(path.stat().st_size for path in log.folder.glob("*.log"))


def test_thousands_of_segments_open_without_reading_them(tmp_path: Path) -> None:
    """Opens after a clean stop: the files read are those of the active segment and one snapshot."""
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.close()
    for base in range(1, 3001):
        for suffix in (".log", ".index", ".timeindex"):
            (log.folder / f"{base:020d}{suffix}").write_bytes(batch(base) if suffix == ".log" else b"")
    unreadable = log.folder / f"{1500:020d}.log"
    unreadable.write_bytes(struct.pack(">qi", 1500, 5))  # would be found damaged by any reader
    producer_snapshot.write(str(log.folder), 3001, encode([]), sync=False)
    log.reopen()
    assert len(log.partition.base_offsets) == 3001
    assert log.partition.log_end == 3001


def test_a_published_log_start_is_newer_than_its_checkpoint(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 8)
    base = files.list_segments(str(log.folder))[-1].base_offset
    position = (log.folder / f"{base:020d}.log").stat().st_size
    assert load(log, trusted_end=TrustedEnd(base, position, 8, log_start=3)).log_start == 3


def test_a_new_folder_is_distinguished_from_an_existing_one(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert create_folder(str(log.folder), b"\1" * 16)
    assert not create_folder(str(log.folder), b"\1" * 16)


def test_a_checkpoint_of_epochs_that_a_power_cut_emptied_comes_back_from_the_batches(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_bytes=400, index_interval_bytes=100))
    for epoch in range(3):
        log.reopen(clean=False, epoch=epoch) if epoch else log.open(epoch=epoch)
        for _ in range(4):
            log.append(batch(0, [b"x" * 60]))
    log.partition.durability.flush()
    before = log.partition.epochs.entries
    assert len(before) == 3
    log.partition.abandon()
    (log.folder / files.LEADER_EPOCH_CHECKPOINT).write_bytes(b"")
    assert load(log, recovery_point=12).epochs.entries == before


def test_opening_thousands_of_logs_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new leader epoch is in the checkpoint at once, and on disk before the first record that
    has it."""
    log = filled(tmp_path / "log", 4)
    log.reopen(clean=False, epoch=1)
    log.partition.close()
    synced: list[str] = []

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    log.reopen(clean=True, epoch=7)
    checkpoint_path = str(log.folder / files.LEADER_EPOCH_CHECKPOINT)
    assert synced == []
    assert checkpoint.read_leader_epochs(str(log.folder))[-1] == (7, 4)
    log.append(batch(4, [b"v"]))
    log.partition.durability.flush()
    assert checkpoint_path in synced
    assert str(log.folder) in synced
