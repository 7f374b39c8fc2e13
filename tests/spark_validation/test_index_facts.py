"""What the files beside a log say, against batches made by hand: each fact at its bound. No
Spark."""

import struct
from pathlib import Path

import numpy as np
import pytest

from kbroker.log.transaction_index import AbortedTransaction
from spark_validation.segments import layout
from spark_validation.segments.aborted_check import Transactions, aborted_index, other_begins
from spark_validation.segments.index_check import (
    BEGINS_LATE,
    ends_below,
    epochs_begin_late,
    falling_epochs,
    offset_index,
    other_epochs,
    other_name,
    read_epochs,
    time_index,
)
from spark_validation.segments.index_entries import Problem, torn
from spark_validation.segments.layout import Fault, Words
from tests.spark_validation.batch_rows import DATA, MARKER, PRODUCER, row, rows

ABORT, COMMIT = 0, 1


def marker(base: int, kind: int = ABORT, producer: int = PRODUCER) -> list[int]:
    return row(base, ATTRIBUTES=MARKER, CONTROL_TYPE=kind, PRODUCER_ID=producer)


def put(folder: Path, suffix: str, data: bytes) -> None:
    (folder / f"{0:020d}{suffix}").write_bytes(data)


ABORTED = rows(row(0, 3, ATTRIBUTES=DATA), marker(4), row(8, 9, ATTRIBUTES=DATA), marker(10, COMMIT), row(12))
"""An aborted transaction; a gap of compaction; a committed one; a gap; a plain batch."""


def aborted(folder: Path, *entries: AbortedTransaction, found: Words = ABORTED) -> list[tuple[int, str]]:
    """(offset, problem) of the transaction index."""
    put(folder, layout.ABORTED_FILE, b"".join(entry.pack() for entry in entries))
    return [(offset, problem) for _, _, offset, problem in aborted_index(str(folder), 0, found)]


RIGHT = AbortedTransaction(PRODUCER, 0, 4, 5)
NO_MARKER = "no abort marker of its producer is there"


@pytest.mark.parametrize(
    ("entry", "problems"),
    [
        (RIGHT, []),
        (AbortedTransaction(9, 0, 4, 5), [(4, "is not above the entry before"), (4, NO_MARKER)]),
        (AbortedTransaction(9, 0, 3, 5), [(3, NO_MARKER)]),
        (AbortedTransaction(PRODUCER, 8, 10, 11), [(10, NO_MARKER)]),
        (AbortedTransaction(PRODUCER, 0, 13, 14), [(13, NO_MARKER)]),
        (AbortedTransaction(PRODUCER, 0, 6, 7), []),
        (AbortedTransaction(PRODUCER, 0, 11, 12), []),
        (AbortedTransaction(PRODUCER, 4, 4, 5), []),
        (AbortedTransaction(PRODUCER, 5, 4, 5), [(4, "begins after its marker")]),
    ],
)
def test_an_entry_names_an_abort_marker_of_its_producer_or_one_that_compaction_removed(
    tmp_path: Path, entry: AbortedTransaction, problems: list[tuple[int, str]]
) -> None:
    others = [] if entry.producer_id == PRODUCER and entry.last_offset == 4 else [RIGHT]
    both = sorted((*others, entry), key=lambda one: one.last_offset)
    assert aborted(tmp_path, *both) == problems


def test_entries_of_aborted_transactions_rise(tmp_path: Path) -> None:
    late = AbortedTransaction(PRODUCER, 6, 6, 7)
    assert aborted(tmp_path, RIGHT, late) == []
    assert (
        aborted(tmp_path, late, RIGHT)
        == aborted(tmp_path, RIGHT, RIGHT)
        == [(4, "is not above the entry before")]
    )


def test_an_abort_marker_that_ended_records_has_an_entry(tmp_path: Path) -> None:
    assert aborted(tmp_path) == [(4, "an abort marker has no entry")]
    assert aborted(tmp_path, found=rows(marker(4), row(5))) == [], "other_begins looks at earlier segments"
    twice = rows(row(0, ATTRIBUTES=DATA), marker(4), marker(5))
    assert aborted(tmp_path, RIGHT, found=twice) == [], "the second one ended nothing"
    others = rows(row(0, ATTRIBUTES=DATA, PRODUCER_ID=9), marker(4))
    assert aborted(tmp_path, found=others) == []


def test_an_abort_marker_whose_records_lie_in_an_earlier_segment_has_an_entry(tmp_path: Path) -> None:
    own, later = row(0, 3, ATTRIBUTES=DATA), rows(marker(4), row(5))

    def found(first: list[int], *entries: AbortedTransaction, indexed: bool = True) -> list[tuple[int, str]]:
        begun = Transactions()
        begun.add(rows(first))
        data = b"".join(entry.pack() for entry in entries)
        (tmp_path / f"{4:020d}{layout.ABORTED_FILE}").write_bytes(data)
        problems = other_begins(str(tmp_path), 4, later, begun, indexed)
        return [(offset, problem) for _, _, offset, problem in problems]

    assert found(own) == [(4, "an abort marker has no entry")]
    assert found(own, RIGHT) == found(own, indexed=False) == []
    assert found(row(0, 3, ATTRIBUTES=DATA, PRODUCER_ID=9)) == [], "it ended nothing"
    assert found(row(0, 3, ATTRIBUTES=DATA, RECORD_COUNT=0)) == [], "compaction took its records"


def problems(found: list[Problem]) -> list[tuple[int, str]]:
    return [(entry, problem.split(" timestamp")[0]) for _, entry, _, problem in found]


def times(folder: Path, *entries: tuple[int, int], found: Words) -> list[tuple[int, str]]:
    put(folder, layout.TIME_INDEX_FILE, b"".join(struct.pack(">qi", *entry) for entry in entries))
    return problems(list(time_index(str(folder), 0, found)))


def test_a_time_entry_has_the_highest_timestamp_so_far(tmp_path: Path) -> None:
    log = rows(row(0, MAX_TIMESTAMP=20), row(1, MAX_TIMESTAMP=20), row(2, 5, MAX_TIMESTAMP=30))
    assert times(tmp_path, (20, 0), (20, 1), (30, 5), found=log) == []
    assert times(tmp_path, (30, 2), found=log) == []
    assert times(tmp_path, (20, 5), found=log) == [(0, "no record there has")]
    assert times(tmp_path, (30, 6), found=log) == [(0, "lies after the segment's end")]
    assert times(tmp_path, (20, 1), (19, 1), found=log) == [
        (1, "is not above the entry before"),
        (1, "no record there has"),
    ]
    falling = rows(row(0, MAX_TIMESTAMP=20), row(1, MAX_TIMESTAMP=10))
    assert times(tmp_path, (10, 1), found=falling) == [(0, "an earlier record has a")]
    assert times(tmp_path, (10, 0), found=rows()) == [(0, "lies after the segment's end")]


def test_a_closed_segments_time_index_ends_with_its_highest_timestamp(tmp_path: Path) -> None:
    log = rows(row(0, MAX_TIMESTAMP=10), row(1, 4, MAX_TIMESTAMP=30), row(5, MAX_TIMESTAMP=20))

    def found(*entries: tuple[int, int], log: Words = log) -> list[tuple[int, int]]:
        put(tmp_path, layout.TIME_INDEX_FILE, b"".join(struct.pack(">qi", *entry) for entry in entries))
        return [(entry, offset) for _, entry, offset, _ in ends_below(str(tmp_path), 0, log)]

    assert list(ends_below(str(tmp_path), 0, log)) == [], "none was written"
    assert found((10, 0), (30, 4)) == []
    assert found((10, 0)) == [(1, 4)]
    assert found() == [(0, 4)]
    assert found(log=rows()) == found(log=rows(row(0, MAX_TIMESTAMP=-1))) == []


def test_an_offset_entry_is_the_start_of_the_batch_that_holds_it(tmp_path: Path) -> None:
    log = rows(row(0), row(1, 3), row(4))

    def found(*entries: tuple[int, int]) -> list[tuple[int, str]]:
        put(tmp_path, layout.INDEX_FILE, b"".join(struct.pack(">ii", *entry) for entry in entries))
        return problems(list(offset_index(str(tmp_path), 0, log)))

    assert found((3, 100), (4, 400)) == found((3, 100)) == []
    assert found((1, 100)) == found((2, 100)) == [(0, "the batch at byte 100 does not end with it")]
    assert found((0, 100)) == [(0, "the batch at byte 100 does not hold it")]
    assert found((4, 100)) == [(0, "the batch at byte 100 does not hold it")]
    assert found((1, 101)) == [(0, "byte 101 is no batch start")]
    assert found((5, 500)) == [(0, "byte 500 is no batch start")]
    assert found((3, 100), (3, 400))[0] == (1, "is not above the entry before")
    assert found((3, 100), (3, 100)) == [(1, "is not above the entry before")]


def test_bytes_after_the_last_entry_are_none_of_a_preallocated_file(tmp_path: Path) -> None:
    put(tmp_path, layout.INDEX_FILE, bytes(11))
    assert list(torn(str(tmp_path), 0)) == []
    put(tmp_path, layout.INDEX_FILE, bytes(10) + b"\1")
    assert [(suffix, entry) for suffix, entry, _, _ in torn(str(tmp_path), 0)] == [(layout.INDEX_FILE, 1)]


def epochs(*entries: tuple[int, int]) -> Words:
    return np.array(entries, np.int64).reshape(-1, 2)


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        (((0, 0), (1, 5), (3, 9)), []),
        (((0, 0), (0, 5)), [1]),
        (((0, 0), (1, 0)), [1]),
        (((2, 0), (1, 5), (3, 9)), [1]),
    ],
)
def test_leader_epochs_and_their_offsets_rise(entries: tuple[tuple[int, int], ...], wrong: list[int]) -> None:
    assert [entry for entry, _, _ in falling_epochs(epochs(*entries))] == wrong


def test_the_first_entry_is_not_above_the_first_batch() -> None:
    assert list(epochs_begin_late(epochs((1, 5)), rows(row(5)))) == []
    assert list(epochs_begin_late(epochs((1, 5)), rows(row(6)))) == []
    for entries in (epochs((1, 5)), epochs()):
        (found,) = epochs_begin_late(entries, rows(row(4)))
        assert found[3] == f"{BEGINS_LATE} 4"
        assert list(epochs_begin_late(entries, rows(row(4, LEADER_EPOCH=-1)))) == []


def test_a_batch_has_the_epoch_that_the_checkpoint_gives_its_offset() -> None:
    entries = epochs((1, 5), (2, 9))
    fits = rows(row(5, 8, LEADER_EPOCH=1), row(9, LEADER_EPOCH=2), row(20, LEADER_EPOCH=2))
    assert list(other_epochs(entries, fits)) == []
    assert list(other_epochs(entries, rows(row(4, LEADER_EPOCH=7), row(6, LEADER_EPOCH=-1)))) == []
    (within,) = other_epochs(entries, rows(row(5, 9, LEADER_EPOCH=1), row(10, LEADER_EPOCH=2)))
    assert within[1:] == (1, 9, "begins within the batch at 5")
    for base, epoch, entry in ((8, 2, 0), (9, 1, 1), (5, 0, 0)):
        (found,) = other_epochs(entries, rows(row(base, LEADER_EPOCH=epoch)))
        assert found[1:3] == (entry, base)


@pytest.mark.parametrize(
    ("text", "found", "unreadable"),
    [
        (b"0\n2\n0 0\n1 5\n", [[0, 0], [1, 5]], []),
        (b"0\n3\n0 0\n1 5\n", [[0, 0], [1, 5]], [2]),
        (b"0\n1\n0 0\n1 5\n", [[0, 0], [1, 5]], [2]),
        (b"1\n1\n0 0\n", [[0, 0]], [1]),
        (b"0\n2\n0 0\n1", [[0, 0]], [1]),
        (b"0\n2\n0 x\n1 5\n", [[1, 5]], [0]),
        (b"0\n1\n0 99999999999999999999\n", [], [0]),
        (b"", [], []),
    ],
)
def test_a_checkpoint_of_epochs_has_the_entries_that_it_counts(
    tmp_path: Path, text: bytes, found: list[list[int]], unreadable: list[int]
) -> None:
    assert len(read_epochs(str(tmp_path))[0]) == 0
    (tmp_path / layout.EPOCHS_FILE).write_bytes(text)
    entries, lines = read_epochs(str(tmp_path))
    assert (entries.tolist(), lines) == (found, unreadable)


def test_a_segments_name_is_an_offset() -> None:
    names = [f"{base:020d}.log" for base in ((1 << 63) - 1, 5, 1 << 63, 10**20 - 1)]
    assert layout.segments_among([*names, "5.log", f"{'x' * 20}.log"]) == [5, (1 << 63) - 1]


def test_a_segment_is_named_by_its_first_batch() -> None:
    assert list(other_name(5, rows(row(5)))) == list(other_name(5, rows())) == []
    assert [problem for _, _, _, problem in other_name(5, rows(row(4)))] == [
        "starts below the offset in its name"
    ]
    assert [problem for _, _, _, problem in other_name(5, rows(row(6)))] == [
        "starts above the offset in its name"
    ]
    assert list(other_name(5, rows(row(6, FAULT=Fault.BAD_CRC)))) == []
