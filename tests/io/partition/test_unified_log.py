"""A partition's log: appends survive, segments roll, retention deletes, the slot says what is."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.files import producer_snapshot
from kbroker.io.openings import create, create_folder
from kbroker.io.partition.deletions import remove
from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.log import checkpoint, files
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.descriptors import open_files
from tests.io.append.plain_append import NOW, Log, names, offsets, topic_config
from tests.log.batch_bytes import batch


def small(**overrides: object) -> dict[str, object]:
    return {"segment_bytes": 300, "index_interval_bytes": 50, **overrides}


def test_a_new_log_is_empty_and_online(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=4)
    words = log.words
    assert words[Slot.STATE] == SlotState.ONLINE
    assert words[Slot.SEQUENCE] % 2 == 0
    assert [int(words[n]) for n in (Slot.LOG_START, Slot.LOG_END, Slot.HIGH_WATERMARK)] == [0] * 3
    assert words[Slot.LEADER_EPOCH] == 4
    assert words[Slot.SEGMENT_COUNT] == 1
    assert checkpoint.read_leader_epochs(str(log.folder)) == [(4, 0)]
    assert checkpoint.read_topic_id(str(log.folder)) == b"\1" * 16
    assert names(log.folder) == {
        *(f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")),
        "leader-epoch-checkpoint",
        "partition.metadata",
    }


def test_a_log_that_is_created_is_the_one_that_loading_an_empty_folder_makes(tmp_path: Path) -> None:
    (tmp_path / "loaded").mkdir()
    loaded, created = Log(tmp_path / "loaded"), Log(tmp_path / "created")
    loaded.open(epoch=4)
    assert create_folder(str(created.folder), b"\1" * 16)
    created.bring_online(create(str(created.folder), 4), 4)
    assert names(created.folder) == names(loaded.folder)
    for name in names(loaded.folder):
        assert (created.folder / name).read_bytes() == (loaded.folder / name).read_bytes(), name
    assert created.words.tolist() == loaded.words.tolist()
    created.append(batch(0, [b"v"]))
    created.reopen(clean=False, epoch=5)
    assert offsets(created) == [0]
    assert checkpoint.read_leader_epochs(str(created.folder)) == [(4, 0), (5, 1)]


def test_a_folder_of_another_topic_of_that_name_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    with pytest.raises(KafkaError) as refusal:
        create_folder(str(log.folder), b"\2" * 16)
    assert refusal.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_rolling_by_size_leaves_complete_segments_and_a_snapshot_for_each(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small()))
    log.open()
    for n in range(10):
        log.append(batch(0, [b"x" * 40], [NOW + n]))
    bases = log.partition.base_offsets
    assert len(bases) > 2
    assert offsets(log) == list(range(10))
    assert log.words[Slot.SEGMENT_COUNT] == len(bases)
    assert log.words[Slot.LOG_BYTES] == log.partition.size
    assert files.list_snapshots(str(log.folder)) == bases[1:]
    for base in bases[:-1]:
        assert (log.folder / f"{base:020d}.log").stat().st_size <= 300


def test_every_roll_makes_readers_list_again(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    before = int(log.words[Slot.SEGMENTS_VERSION])
    log.append(batch())
    log.partition.roll(NOW)
    assert log.words[Slot.SEGMENTS_VERSION] == before + 2  # even: the files are as they should be
    assert (log.words[Slot.HW_BASE], log.words[Slot.HW_POSITION]) == (1, 0)


def test_an_empty_active_segment_is_not_rolled(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.partition.roll(NOW + 5)
    assert log.partition.base_offsets == [0]
    assert log.row[AppendRow.ROLL_AT_MS] == NOW + 5 + 604800000


@pytest.mark.parametrize(("age", "rolls"), [(1000, False), (1001, True)])
def test_time_rolls_by_timestamps_from_the_first_batch_on(tmp_path: Path, age: int, rolls: bool) -> None:
    log = Log(tmp_path, topic_config(segment_ms=1000))
    log.open()
    log.append(batch(0, [b"a"], [NOW]))
    log.append(batch(0, [b"b"], [NOW + age]))
    assert len(log.partition.base_offsets) == 1 + rolls


def test_batches_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_ms=1000))
    log.open()
    log.append(batch(0, [b"a"], [-1]))
    log.append(batch(0, [b"b"], [-1]), NOW + 1000)
    assert len(log.partition.base_offsets) == 1
    log.append(batch(0, [b"b"], [-1]), NOW + 1001)
    assert len(log.partition.base_offsets) == 2


def test_jitter_only_ever_shortens_a_segment(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_ms=1000, segment_jitter_ms=400))
    log.open()
    for n in range(20):
        log.append(batch())
        log.partition.roll(NOW + n)
        assert 600 < log.row[AppendRow.SEGMENT_MS] <= 1000


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(index_interval_bytes=0, segment_index_bytes=40))
    log.open()
    for n in range(12):
        log.append(batch(0, [b"v"], [NOW + n]))
    for base in log.partition.base_offsets:
        assert (log.folder / f"{base:020d}.index").stat().st_size <= 40
        assert (log.folder / f"{base:020d}.timeindex").stat().st_size <= 40
    assert len(log.partition.base_offsets) > 2


def test_an_offset_that_fits_no_int32_rolls(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"a"], last_offset_delta=2**31 - 2))
    log.append(batch(0, [b"b", b"c"]))
    assert log.partition.base_offsets == [0, 2**31 - 1]


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(tmp_path: Path, clean: bool) -> None:
    log = Log(tmp_path, topic_config(**small()))
    log.open(epoch=1)
    for n in range(20):
        log.append(
            batch(
                0,
                [b"x" * (n * 7 % 50)] * (1 + n % 3),
                [NOW + n] * (1 + n % 3),
                producer_id=n % 3,
                producer_epoch=0,
                base_sequence=n,
            )
        )
    seen, state = offsets(log), log.row.copy()
    before = {entry.producer_id: entry for entry in log.producers.entries(3)}
    log.reopen(clean=clean, epoch=1)
    assert offsets(log) == seen
    for field in (
        AppendRow.BASE_OFFSET,
        AppendRow.POSITION,
        AppendRow.NEXT_OFFSET,
        AppendRow.INDEX_BYTES,
        AppendRow.SINCE_INDEX,
        AppendRow.MAX_TIMESTAMP,
        AppendRow.MAX_TIMESTAMP_OFFSET,
        AppendRow.FIRST_TIMESTAMP,
        AppendRow.OTHER_BYTES,
        AppendRow.LEADER_EPOCH,
    ):
        assert log.row[field] == state[field], field
    after = {entry.producer_id: entry for entry in log.producers.entries(3)}
    assert {pid: entry.batches[-1] for pid, entry in after.items()} == {
        pid: entry.batches[-1] for pid, entry in before.items()
    }


def test_an_unclean_restart_remembers_the_last_five_batches_of_the_active_segment(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for n in range(9):
        log.append(batch(0, [b"v"], producer_id=7, producer_epoch=1, base_sequence=n))
    before = log.producers.entries(3)
    log.reopen(clean=False)
    assert log.producers.entries(3) == before
    assert len(before[0].batches) == 5


def test_leader_epochs_begin_where_the_log_ended(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=1)
    log.append(batch())
    log.partition.role.set_leader_epoch(3)
    log.append(batch())
    log.reopen(epoch=2)  # never back
    assert log.row[AppendRow.LEADER_EPOCH] == 3
    assert checkpoint.read_leader_epochs(str(log.folder)) == [(1, 0), (3, 1)]
    assert log.partition.end_offset_for(1) == (1, 1)
    assert log.partition.end_offset_for(2) == (1, 1)
    assert log.partition.end_offset_for(3) == (3, 2)
    assert log.partition.end_offset_for(4) == (-1, -1)


def test_a_sync_moves_the_durable_offset_and_only_then_a_durable_topics_watermark(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(write_caching=False), flags=SlotFlag.DURABLE)
    log.open()
    log.append(batch())
    assert (log.words[Slot.LOG_END], log.words[Slot.HIGH_WATERMARK]) == (1, 0)
    job = log.partition.durability.begin()
    log.append(batch())
    job.run()
    assert log.words[Slot.HIGH_WATERMARK] == 0
    log.partition.durability.finish(job)
    words = log.words
    assert [int(words[n]) for n in (Slot.LOG_END, Slot.HIGH_WATERMARK, Slot.DURABLE)] == [2, 1, 1]
    assert offsets(log) == [0]
    log.partition.durability.flush()
    assert offsets(log) == [0, 1]


def test_a_sync_of_only_the_active_segment_does_not_cover_rolled_ones(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.roll(NOW)
    log.append(batch())
    log.partition.durability.publish(2, 1, int(log.row[AppendRow.POSITION]))
    assert log.partition.recovery_point == 0
    log.partition.durability.flush()
    assert log.partition.recovery_point == 2
    assert log.partition.durability.is_synced


def test_a_sync_of_rolled_segments_does_not_sync_the_active_one(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.roll(NOW)
    log.append(batch())
    assert log.partition.segments.unsynced.first_base == 0
    job = log.partition.durability.begin(rolled_only=True)
    job.run()
    log.partition.durability.finish(job)
    rolled = log.partition.segments.unsynced.first_base
    assert (log.partition.recovery_point, rolled, log.partition.durability.is_synced) == (1, None, False)


def test_a_sync_from_before_a_roll_counts_up_to_its_own_end(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(write_caching=False), flags=SlotFlag.DURABLE)
    log.open()
    log.append(batch())
    job = log.partition.durability.begin()
    log.append(batch())
    log.partition.roll(NOW)
    log.append(batch())
    job.run()
    log.partition.durability.finish(job)
    assert (log.partition.recovery_point, log.partition.high_watermark) == (1, 1)
    assert offsets(log) == [0]
    log.partition.durability.flush()
    assert offsets(log) == [0, 1, 2]


def test_flush_jobs_survive_a_roll_and_a_deletion(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(retention_ms=0))
    log.open()
    log.append(batch(0, [b"x"], [NOW - 10]))
    job = log.partition.durability.begin()
    log.partition.roll(NOW)
    log.partition.retention(NOW)
    job.run()
    log.partition.durability.finish(job)
    assert log.partition.recovery_point == 1


def test_records_that_waited_for_the_disk_can_be_read_with_write_caching(tmp_path: Path) -> None:
    durable = topic_config(write_caching=False)
    log = Log(tmp_path, durable, flags=SlotFlag.DURABLE)
    log.open()
    log.append(batch())
    log.partition.configure(durable)
    assert log.partition.high_watermark == 0
    log.words[Slot.FLAGS] = 0
    log.partition.configure(topic_config())
    assert log.partition.high_watermark == 1
    assert offsets(log) == [0]


def test_a_clean_close_leaves_snapshot_and_final_index_entry(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for n in range(3):
        log.append(batch(0, [b"v"], [NOW + n], producer_id=5, producer_epoch=2, base_sequence=n))
    log.partition.close()
    assert (log.folder / f"{0:020d}.timeindex").read_bytes() == (NOW + 2).to_bytes(8) + (2).to_bytes(4)
    snapshot = producer_snapshot.read(str(log.folder), 3)
    assert [(entry.producer_id, entry.last_sequence, entry.last_offset) for entry in snapshot] == [(5, 2, 2)]
    assert log.words[Slot.STATE] == SlotState.FREE
    assert log.words[Slot.DURABLE] == 3
    assert log.row[AppendRow.STATE] == 0
    log.partition.close()


def test_deletion_renames_the_folder_and_removes_it_later(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    renamed = log.partition.delete(NOW)
    assert not log.folder.exists()
    parsed = files.parse_folder(Path(renamed).name)
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.suffix) == ("t", 0, files.DELETE_FOLDER)
    assert log.words[Slot.STATE] == SlotState.DELETED
    remove(log.deletions.take_due(NOW + 60000))
    assert not list(tmp_path.iterdir())


def test_preallocation_reserves_space_and_gives_it_back(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(preallocate="true", segment_bytes=4 << 20))
    log.open()
    assert (log.folder / f"{0:020d}.log").stat().st_blocks * 512 >= 4 << 20
    log.append(batch())
    log.partition.roll(NOW)
    assert (log.folder / f"{0:020d}.log").stat().st_blocks * 512 < 1 << 20
    status = (log.folder / f"{1:020d}.log").stat()
    assert status.st_size == 0
    assert status.st_blocks * 512 >= 4 << 20
    log.append(batch())
    log.partition.close()
    assert (log.folder / f"{1:020d}.log").stat().st_blocks * 512 < 1 << 20


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = open_files()
    log = Log(tmp_path, topic_config(**small(retention_bytes=400)))
    for _ in range(2):
        log.open()
        for _ in range(20):
            log.append(batch(0, [b"x" * 60]))
        log.partition.retention(NOW)
        log.partition.truncate_to(log.partition.log_end - 2, NOW)
        log.partition.durability.begin().close()
        log.partition.close()
        log.__post_init__()
    assert open_files() == before


def test_a_sequence_left_odd_by_a_crash_becomes_even(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.words[Slot.SEQUENCE] = 7
    log.open()
    assert log.words[Slot.SEQUENCE] % 2 == 0
