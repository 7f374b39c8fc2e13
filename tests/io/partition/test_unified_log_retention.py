"""Old segments are deleted by size, age and DeleteRecords, but never while they may still be
needed."""

import errno
import os
from pathlib import Path

import pytest

from kbroker.io.partition.deletions import remove
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.log import checkpoint
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.io.append.plain_append import NOW, Log, names, offsets, topic_config
from tests.log.batch_bytes import batch


def small(**overrides: object) -> dict[str, object]:
    return {"segment_bytes": 300, "index_interval_bytes": 50, **overrides}


def test_retention_by_size_keeps_at_least_the_configured_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(retention_bytes=500)))
    log.open()
    for _ in range(20):
        log.append(batch(0, [b"x" * 40]))
    size = log.partition.size
    deleted = log.partition.retention(NOW)
    assert deleted > 0
    assert 500 <= log.partition.size < size
    assert log.words[Slot.LOG_START] == log.partition.base_offsets[0]
    assert offsets(log) == list(range(log.partition.base_offsets[0], 20))
    assert log.partition.retention(NOW) == 0


def test_retention_by_time_deletes_the_active_segment_too(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(retention_ms=1000)))
    log.open()
    for _ in range(5):
        log.append(batch(0, [b"x" * 100], [NOW]))
    assert log.partition.retention(NOW + 1000) == 0
    assert log.partition.retention(NOW + 1001) > 0
    assert log.partition.base_offsets == [5]
    assert (log.words[Slot.LOG_START], log.words[Slot.LOG_END], log.partition.size) == (5, 5, 0)


def test_time_retention_stops_at_the_first_young_segment(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(retention_ms=1000))
    log.open()
    for timestamp in (NOW, NOW + 5000, NOW, NOW):
        log.append(batch(0, [b"x"], [timestamp]))
        log.partition.roll(NOW)
    assert log.partition.retention(NOW + 2000) == 1
    assert log.partition.base_offsets[0] == 1


def test_compacted_topics_keep_their_age(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(cleanup_policy="compact", retention_ms=1, retention_bytes=1)))
    log.open()
    for _ in range(5):
        log.append(batch(0, [b"x" * 100], [NOW]))
    assert log.partition.retention(NOW + 10**9) == 0


def test_nothing_above_the_high_watermark_is_deleted(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(retention_bytes=0, write_caching=False)), flags=SlotFlag.DURABLE)
    log.open()
    log.append(batch(0, [b"x" * 100]))
    log.partition.durability.flush()
    log.append(batch(0, [b"x" * 200]))  # rolls
    assert log.partition.high_watermark == 1
    assert log.partition.retention(NOW) == 1
    assert log.partition.base_offsets == [1]


def test_segments_are_removed_at_once_if_there_is_no_room_for_a_longer_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a full directory of a full disk. They took the space until the next start, and then the
    deleted records were back."""
    log = Log(tmp_path, topic_config(**small()))
    log.open()
    for _ in range(20):
        log.append(batch(0, [b"x" * 40]))
    start = log.partition.base_offsets[2]
    log.partition.delete_records(start)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as no_room:
        no_room.setattr(Path, "rename", full)
        assert log.partition.retention(NOW) == 2
    log.reopen(clean=False)
    assert (log.partition.log_start, log.partition.base_offsets[0]) == (start, start)
    assert offsets(log) == list(range(start, 20))


def test_deleted_files_stay_for_the_delay(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(retention_ms=1, file_delete_delay_ms=60000)))
    log.open()
    for _ in range(3):
        log.append(batch(0, [b"x" * 200], [NOW]))
    log.partition.retention(NOW + 100)
    assert f"{0:020d}.log.deleted" in names(log.folder)
    assert f"{0:020d}.log" not in names(log.folder)
    assert log.deletions.take_due(NOW + 60099) == []
    remove(log.deletions.take_due(NOW + 60100))
    assert not [name for name in names(log.folder) if name.endswith(".deleted")]


def test_delete_records_moves_the_start_at_once_and_the_files_later(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(cleanup_policy="compact")))
    log.open()
    for _ in range(10):
        log.append(batch(0, [b"x" * 100]))
    assert log.partition.delete_records(5) == 5
    assert log.words[Slot.LOG_START] == 5
    assert log.partition.base_offsets[0] == 0
    assert log.partition.checkpointed_log_start == 5
    assert log.partition.retention(NOW) > 0
    assert log.partition.base_offsets[0] <= 5 < log.partition.base_offsets[1]
    assert log.partition.delete_records(3) == 5
    assert log.partition.delete_records(-1) == 10
    for wrong in (11, -2):
        with pytest.raises(KafkaError) as refusal:
            log.partition.delete_records(wrong)
        assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_epochs_below_a_new_log_start_are_forgotten_at_once(tmp_path: Path) -> None:
    """They would name an offset that is gone."""
    log = Log(tmp_path)
    log.open()
    for _ in range(6):
        log.append(batch(0, [b"v"]))
    log.partition.epochs.assign(7, 4)
    for start, entries in ((3, ((0, 3), (7, 4))), (5, ((7, 5),))):
        log.partition.delete_records(start)
        assert log.partition.epochs.entries == entries
    assert log.partition.end_offset_for(0) == (0, 5)


def test_records_above_the_high_watermark_are_not_deleted(tmp_path: Path) -> None:
    log = Log(tmp_path, replicated=True)
    log.open()
    for _ in range(3):
        log.append(batch(0, [b"v"]))
    log.partition.role.publish_high_watermark(2)
    with pytest.raises(KafkaError) as refusal:
        log.partition.delete_records(3)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.partition.log_start == 0
    assert log.partition.delete_records(-1) == 2


def test_a_paused_log_deletes_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(**small(retention_ms=1000)))
    log.open()
    for _ in range(5):
        log.append(batch(0, [b"x" * 100], [NOW]))
    bases = log.partition.base_offsets
    log.partition.role.pause()
    assert log.partition.retention(NOW + 1001) == 0
    assert log.partition.base_offsets == bases
    log.partition.role.resume()
    assert log.partition.retention(NOW + 1001) > 0


def test_truncated_records_are_neither_compacted_nor_on_disk(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(4):
        log.append(batch(0, [b"v"]))
    log.partition.durability.flush()
    log.partition.cleaned_up_to(4)
    assert log.partition.recovery_point == 4
    log.partition.truncate_to(2, NOW)
    assert (log.partition.log_end, log.partition.recovery_point, log.partition.first_dirty) == (2, 2, 2)


def test_a_log_that_starts_again_knows_no_producer_and_no_transaction(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(
        batch(0, [b"v"], attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)  # transactional
    )
    slot = log.partition.slot
    assert [entry.producer_id for entry in log.producers.entries(slot)] == [7]
    log.partition.truncate_fully(9, NOW)
    assert log.producers.entries(slot) == []
    assert (log.partition.log_start, log.partition.log_end, log.partition.active.first_unstable) == (9, 9, -1)


def test_the_checkpointed_log_start_holds_after_a_restart(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(5):
        log.append(batch())
    log.partition.delete_records(3)
    log.reopen(log_start=3)
    assert offsets(log) == [3, 4]


def test_the_slot_has_the_leader_epoch_of_the_log_start(tmp_path: Path) -> None:
    """ListOffsets answers it with the earliest offset."""
    log = Log(tmp_path, topic_config(**small()))
    log.open(epoch=3)
    for _ in range(4):
        log.append(batch(0, [b"x" * 100]))
    log.reopen(epoch=5, log_start=0)
    for _ in range(4):
        log.append(batch(0, [b"x" * 100]))
    reported = [int(log.words[Slot.START_EPOCH])]
    for start in (3, 4, 6):
        log.partition.delete_records(start)
        reported.append(int(log.words[Slot.START_EPOCH]))
    assert reported == [3, 3, 5, 5]


def test_only_a_log_start_inside_a_segment_is_for_the_checkpoint(tmp_path: Path) -> None:
    """As in Apache Kafka: the name of the first segment says the others."""
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.roll(NOW)
    for _ in range(2):
        log.append(batch())
    starts = []
    for start in (0, 1, 2):
        log.partition.delete_records(start)
        log.partition.retention(NOW)
        starts.append((log.partition.base_offsets[0], log.partition.checkpointed_log_start))
    assert starts == [(0, None), (1, None), (1, 2)]


def test_leader_epochs_begin_at_the_log_start_now_and_after_a_restart(tmp_path: Path) -> None:
    """Nothing is written for that: a load repeats it."""
    log = Log(tmp_path)
    log.open(epoch=3)
    log.append(batch())
    log.reopen(epoch=5)
    for _ in range(3):
        log.append(batch())
    assert checkpoint.read_leader_epochs(str(log.folder)) == [(3, 0), (5, 1)]
    log.partition.delete_records(2)
    assert log.partition.epochs.entries == ((5, 2),)
    log.reopen(epoch=5, log_start=2)
    assert log.partition.epochs.entries == ((5, 2),)


def test_no_client_deletes_records_of_a_paused_log(tmp_path: Path) -> None:
    """It is about to continue in the copy that another log dir has."""
    log = Log(tmp_path)
    log.open()
    log.append(batch())
    log.partition.role.pause()
    with pytest.raises(KafkaError) as refusal:
        log.partition.delete_records(1)
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.partition.log_start == 0


@pytest.mark.parametrize("offset", [2, 3])
def test_a_truncation_beyond_the_end_changes_nothing(tmp_path: Path, offset: int) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(2):
        log.append(batch())
    log.partition.durability.flush()
    before, fields = log.words.tolist(), log.row.tolist()
    log.partition.truncate_to(offset, NOW)
    assert log.words.tolist() == before
    assert log.row.tolist() == fields
    assert log.partition.durability.is_synced


def test_a_log_that_is_cut_below_its_start_begins_there(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for _ in range(4):
        log.append(batch())
    log.partition.delete_records(3)
    log.partition.truncate_to(2, NOW)
    assert (log.partition.log_start, log.partition.log_end, log.partition.high_watermark) == (2, 2, 2)
    assert log.words[Slot.LOG_START] == 2


def test_a_log_that_starts_again_has_only_epochs_from_there_and_all_of_it_on_disk(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open(epoch=3)
    for _ in range(2):
        log.append(batch())
    log.partition.cleaned_up_to(1)
    log.partition.truncate_fully(9, NOW)
    assert checkpoint.read_leader_epochs(str(log.folder)) == []
    assert log.partition.first_dirty == -1
    assert (log.partition.high_watermark, log.partition.recovery_point) == (9, 9)
