"""Producers and transactions come back from snapshot and batch headers."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.recovery import producer_replay
from kbroker.log import transaction_index
from kbroker.log.transaction_index import AbortedTransaction
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.io.recovery.torn_log import filled, load
from tests.log.batch_bytes import batch, end_marker


def test_transactions_are_replayed_with_their_aborts(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_bytes=100000))
    log.open()

    def data(producer: int, sequence: int) -> bytes:
        return batch(
            0, [b"v"], attributes=0x10, producer_id=producer, producer_epoch=1, base_sequence=sequence
        )

    log.append(data(1, 0))  # 0
    log.append(data(2, 0))  # 1
    log.append(end_marker(0, 1, 1, commit=False, coordinator_epoch=9))  # 2: 2 is open from 1
    log.append(data(1, 1))  # 3
    log.append(end_marker(0, 2, 1, commit=True))  # 4
    log.append(end_marker(0, 1, 1, commit=False))  # 5
    log.append(data(3, 0))  # 6
    log.append(end_marker(0, 4, 1, commit=False))  # 7: without data
    log.partition.abandon()
    loaded = load(log)
    assert loaded.first_unstable == 6
    assert transaction_index.read_index(str(log.folder), 0) == [
        AbortedTransaction(1, 0, 2, 1),
        AbortedTransaction(1, 3, 5, 6),
    ]
    state = {entry.producer_id: entry for entry in loaded.producers}
    assert state[3].current_txn_first_offset == 6
    assert state[1].current_txn_first_offset == -1
    assert (state[4].batches, state[4].last_timestamp) == ((), NOW)
    log.reopen(clean=False)
    assert log.row[AppendRow.FIRST_UNSTABLE] == 6
    assert log.words[6] == 6  # last stable offset
    assert transaction_index.read_index(str(log.folder), 0) == [
        AbortedTransaction(1, 0, 2, 1),
        AbortedTransaction(1, 3, 5, 6),
    ]


def test_very_many_ended_transactions_are_kept_in_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is stable before the high watermark has passed its marker."""
    monkeypatch.setattr(producer_replay, "MAX_ENDED", 4)
    log = Log(tmp_path)
    log.open()
    for producer, sequence in ((1, 0), (2, 0), (1, 1), (2, 1), (1, 2)):
        data = batch(
            0, [b"v"], attributes=0x10, producer_id=producer, producer_epoch=1, base_sequence=sequence
        )
        log.append(data)
        log.append(end_marker(0, producer, 1, commit=True))
    log.partition.abandon()
    log.known_mark = 0
    assert log.load().ended == [(0, 3), (4, 7), (8, 9)]


@pytest.mark.parametrize(("mark", "ended"), [(0, [(0, 1)]), (1, [(0, 1)]), (2, [])])
def test_an_end_may_be_lost_while_its_marker_is_not_below_the_high_watermark(
    tmp_path: Path, mark: int, ended: list[tuple[int, int]]
) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], attributes=0x10, producer_id=1, producer_epoch=1, base_sequence=0))
    log.append(end_marker(0, 1, 1, commit=True))
    log.append(end_marker(0, 2, 1, commit=True))  # of a producer without an open transaction
    log.partition.abandon()
    log.known_mark = mark
    assert log.load().ended == ended


@pytest.mark.parametrize("content", [b"\0\7" + bytes(32), AbortedTransaction(1, 0, -5, 0).pack()])
def test_a_bad_transaction_index_is_rebuilt(tmp_path: Path, content: bytes) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], attributes=0x10, producer_id=1, producer_epoch=1, base_sequence=0))
    log.append(end_marker(0, 1, 1, commit=False))
    log.partition.close()
    (log.folder / f"{0:020d}.txnindex").write_bytes(content)
    log.reopen(clean=True)
    assert transaction_index.read_index(str(log.folder), 0) == [AbortedTransaction(1, 0, 1, 2)]


def test_expired_producers_are_not_loaded_but_open_transactions_are(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"v"], [NOW], producer_id=1, producer_epoch=0, base_sequence=0))
    log.append(batch(0, [b"v"], [NOW], attributes=0x10, producer_id=2, producer_epoch=0, base_sequence=0))
    log.append(batch(0, [b"v"], [NOW + 1], producer_id=3, producer_epoch=0, base_sequence=0))
    log.partition.close()
    log.now_ms = NOW + 86_400_000
    loaded = log.load(True, 3)
    assert [entry.producer_id for entry in loaded.producers] == [2, 3]


def test_a_corrupt_snapshot_is_replaced_by_replay(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    log.reopen(clean=False)
    log.partition.close()
    newest = sorted(log.folder.glob("*.snapshot"))[-1]
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    loaded = load(log, clean=True)
    assert [entry.last_offset for entry in loaded.producers] == [18, 19]


@pytest.mark.parametrize("deleted_to", [4, 6, 7])
def test_the_last_five_batches_outlive_a_death_and_the_segments_that_held_them(
    tmp_path: Path, deleted_to: int
) -> None:
    """A producer with five requests in flight may repeat any of them; Apache Kafka knows the last
    one alone."""
    log = Log(tmp_path)
    log.open()
    for n in range(7):
        log.append(batch(0, [b"v"], producer_id=1, producer_epoch=0, base_sequence=n))
        if n == 5:
            log.partition.roll(NOW)  # at offset 6
    log.partition.delete_records(deleted_to)
    log.partition.retention(NOW)
    before = log.producers.entries(3)
    assert [known.base_sequence for known in before[0].batches] == [2, 3, 4, 5, 6]
    log.reopen(clean=False, log_start=deleted_to)
    assert log.producers.entries(3) == before
    log.partition.truncate_to(max(deleted_to, 6), NOW)  # what is read back then is the snapshot again
    last = max(deleted_to, 6) - 1
    assert [known.base_sequence for known in log.producers.entries(3)[0].batches] == list(range(7))[
        max(0, last - 4) : last + 1
    ]


def test_nothing_left_in_the_log_and_the_producer_is_still_known(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.open()
    for n in range(3):
        log.append(batch(0, [b"v"], producer_id=1, producer_epoch=0, base_sequence=n))
    log.partition.roll(NOW)
    log.partition.delete_records(3)
    log.partition.retention(NOW)
    assert log.partition.base_offsets == [3]
    log.reopen(clean=False, log_start=3)
    assert [known.base_sequence for known in log.producers.entries(3)[0].batches] == [0, 1, 2]
