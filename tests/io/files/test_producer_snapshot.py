"""Snapshots are Kafka's bytes, and damage is never taken for state."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kbroker.io.files import producer_snapshot
from kbroker.io.files.producer_snapshot import (
    MAX_BATCHES,
    BatchMetadata,
    CorruptSnapshot,
    ProducerEntry,
    decrement_sequence,
)
from kbroker.kernels.crc32c import crc32c
from tests.io.files.snapshot_bytes import encode

LONG = st.integers(0, 2**62)


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    timestamp = draw(st.integers(-1, 2**60))
    batches: list[BatchMetadata] = []
    for _ in range(draw(st.integers(0, MAX_BATCHES))):
        delta, last = draw(st.integers(0, 1000)), draw(st.integers(0, 2**31 - 1))
        offset = draw(st.integers(1000, 2**60))
        first = decrement_sequence(last, delta)
        batches.append(BatchMetadata(first, last, offset - delta, offset, draw(st.integers(-1, 2**60))))
    if batches:  # a snapshot has no timestamp of the last batch itself
        batches[-1] = replace(batches[-1], timestamp=timestamp)
    return ProducerEntry(
        draw(LONG),
        draw(st.integers(0, 32767)),
        draw(st.integers(-1, 99)),
        timestamp,
        draw(st.integers(-1, 2**60)),
        tuple(batches),
    )


STATES = st.lists(entries(), max_size=6, unique_by=lambda entry: entry.producer_id)


@given(STATES)
def test_a_written_snapshot_reads_back(state: list[ProducerEntry]) -> None:
    assert producer_snapshot.decode(encode(state)) == state


def test_all_five_batches_are_kept_after_kafkas_message() -> None:
    batches = tuple(BatchMetadata(n, n, n, n, 100 + n) for n in range(5))
    five = encode([ProducerEntry(1, 0, -1, 104, -1, batches)])
    last = encode([ProducerEntry(1, 0, -1, 104, -1, batches[-1:])])
    assert producer_snapshot.decode(five)[0].batches == batches
    assert five[6:].startswith(last[6:])
    assert producer_snapshot.decode(last)[0].batches == batches[-1:]  # as Apache Kafka writes it


def test_of_more_batches_the_newest_are_known() -> None:
    batches = tuple(BatchMetadata(n, n, n, n, 100 + n) for n in range(MAX_BATCHES + 2))
    many = encode([ProducerEntry(1, 0, -1, 106, -1, batches)])
    assert producer_snapshot.decode(many)[0].batches == batches[-MAX_BATCHES:]


def test_a_batch_at_the_first_offset_is_known_after_a_start() -> None:
    """A retry of it would be appended again."""
    first = (BatchMetadata(0, 0, 0, 0, 100),)
    state = [ProducerEntry(1, 0, -1, 100, -1, first)]
    assert producer_snapshot.decode(encode(state)) == state


def test_more_producers_than_there_are_bytes_are_damage() -> None:
    body = producer_snapshot.COUNT.pack(2) + encode([ProducerEntry(1, 0)])[10:]
    head = producer_snapshot.HEADER.pack(producer_snapshot.VERSION, crc32c(body))
    with pytest.raises(CorruptSnapshot, match="2 producers"):
        producer_snapshot.decode(head + body)


def test_a_shorter_snapshot_replaces_a_longer_one(tmp_path: Path) -> None:
    long = encode([ProducerEntry(number, 0) for number in range(5)])
    short = encode([ProducerEntry(7, 1)])
    for data in (long, short):
        producer_snapshot.write(str(tmp_path), 9, data, sync=False)
    assert producer_snapshot.read(str(tmp_path), 9) == [ProducerEntry(7, 1)]


@pytest.mark.parametrize("sync", [False, True])
def test_a_snapshot_is_on_disk_if_it_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    data = encode([ProducerEntry(7, 1)])
    producer_snapshot.write(str(tmp_path), 9, data, sync=sync)
    assert synced == [len(data)] * sync


def test_the_bytes_are_kafkas() -> None:
    entry = ProducerEntry(7, 1, 3, 1000, 50, (BatchMetadata(8, 9, 60, 61, 1000),))
    data = encode([entry])
    assert data[:2].hex() == "0001"
    assert data[6:].hex() == (
        "000000010000000000000007000100000009000000000000003d0000000100000000000003e800000003"
        "0000000000000032"
    )  # fmt: skip


@given(STATES, st.data())
def test_any_flipped_bit_or_cut_is_found(state: list[ProducerEntry], data: st.DataObject) -> None:
    good = encode(state)
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    for bad in (bytes(flipped), good[:at], good + b"x"):
        with pytest.raises(CorruptSnapshot):
            producer_snapshot.decode(bad)


def test_stray_snapshots_are_those_of_no_segment_but_the_newest_at_the_end() -> None:
    assert producer_snapshot.strays([5, 10, 15, 20, 25], [0, 10, 20]) == [5, 15]
    assert producer_snapshot.strays([5, 10], [0, 10, 20]) == [5]
    assert producer_snapshot.strays([22, 25], [0, 20]) == [22]
    assert producer_snapshot.strays([], [0]) == []


def test_files_are_named_by_offset(tmp_path: Path) -> None:
    path = producer_snapshot.write(str(tmp_path), 42, encode([]), sync=True)
    assert path == f"{tmp_path}/{42:020d}.snapshot"
    assert producer_snapshot.read(str(tmp_path), 42) == []


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_sequences_wrap(sequence: int, by: int) -> None:
    assert decrement_sequence((sequence + by) % 2**31, by) == sequence
    assert decrement_sequence(0, 1) == 2**31 - 1


def test_a_disk_that_takes_a_part_of_the_bytes_gets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot without its end would be none, and retries of its producers would be appended
    again."""
    write = os.write
    state = [ProducerEntry(number, 0) for number in range(9)]
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
    producer_snapshot.write(str(tmp_path), 5, encode(state), sync=False)
    assert producer_snapshot.read(str(tmp_path), 5) == state
