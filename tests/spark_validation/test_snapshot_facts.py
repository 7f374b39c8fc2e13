"""What a producer snapshot says, against batches made by hand: each fact at its bound. No Spark."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from spark_validation.segments import layout
from spark_validation.segments.layout import Words
from spark_validation.segments.snapshot_check import Producers, snapshot_problems, snapshots_in
from tests.io.files.snapshot_bytes import encode
from tests.spark_validation.batch_rows import DATA, MARKER, PRODUCER, row, rows

AT = 12
LOG = rows(
    row(0, 3, ATTRIBUTES=DATA, BASE_SEQUENCE=0, PRODUCER_EPOCH=2),
    row(4, ATTRIBUTES=MARKER, CONTROL_TYPE=1, COORDINATOR_EPOCH=5, PRODUCER_EPOCH=2, BASE_SEQUENCE=-1),
    row(5, 7, ATTRIBUTES=DATA, BASE_SEQUENCE=4, PRODUCER_EPOCH=2),
    row(8, 9, ATTRIBUTES=DATA, BASE_SEQUENCE=7, PRODUCER_EPOCH=2),
)
"""A committed transaction, and two batches of an open one."""
LAST = BatchMetadata(7, 8, 8, 9, 0)
RIGHT = ProducerEntry(PRODUCER, 2, 5, 0, 5, (LAST,))
ENDED = rows(*LOG.tolist(), row(10, ATTRIBUTES=MARKER, CONTROL_TYPE=0, COORDINATOR_EPOCH=6, PRODUCER_EPOCH=3))


def found(folder: Path, *entries: ProducerEntry, log: Words = LOG, at: int = AT) -> list[tuple[int, str]]:
    (folder / f"{at:020d}.snapshot").write_bytes(encode(entries))
    below = Producers()
    below.add(log)
    return [(offset, problem) for _, _, offset, problem in snapshot_problems(str(folder), at, below)]


@pytest.mark.parametrize(
    ("entry", "problems"),
    [
        (RIGHT, []),
        (replace(RIGHT, batches=(BatchMetadata(4, 6, 5, 7, 0), LAST)), []),
        (replace(RIGHT, producer_id=99), [(9, "ends at 9, in a batch of the producer 7")]),
        (replace(RIGHT, producer_id=99, batches=(BatchMetadata(0, 0, 11, 11, 0),)), []),
        (replace(RIGHT, producer_id=99, batches=()), []),
        (replace(RIGHT, batches=(BatchMetadata(7, 9, 8, 9, 0),)), [(9, "the last sequence number 9, there is 8")]),
        (replace(RIGHT, batches=(BatchMetadata(4, 6, 5, 7, 0),)), [(9, "ends at 7, below its batch")]),
        (replace(RIGHT, batches=(BatchMetadata(7, 8, 7, 9, 0),)), [(9, "the offset delta 2, there is 1")]),
        (replace(RIGHT, batches=(BatchMetadata(9, 9, 12, 12, 0),)), [(12, "ends at or after its snapshot")]),
        (replace(RIGHT, producer_epoch=1), [(9, "has the producer epoch 1, there is 2")]),
        (replace(RIGHT, producer_epoch=3), [(9, "has the producer epoch 3, there is 2")]),
        (replace(RIGHT, producer_epoch=3, batches=()), []),
        (replace(RIGHT, coordinator_epoch=6), []),
        (replace(RIGHT, coordinator_epoch=4), [(4, "has the coordinator epoch 4, there is 5")]),
        (replace(RIGHT, current_txn_first_offset=-1), [(5, "an open transaction from -1, there is one from 5")]),
        (replace(RIGHT, current_txn_first_offset=0), [(4, "from 0, which a marker ended")]),
        (replace(RIGHT, current_txn_first_offset=12), [(12, "begins at or after its snapshot")]),
        (replace(RIGHT, current_txn_first_offset=8), [(5, "an open transaction from 8, there is one from 5")]),
    ],
)  # fmt: skip
def test_entries_of_an_open_transaction(
    tmp_path: Path, entry: ProducerEntry, problems: list[tuple[int, str]]
) -> None:
    got = found(tmp_path, entry)
    assert [offset for offset, _ in got] == [offset for offset, _ in problems]
    assert all(part in problem for (_, problem), (_, part) in zip(got, problems, strict=True))


def test_an_entry_after_a_marker_of_a_new_epoch(tmp_path: Path) -> None:
    """Its sequence numbers start again, and it has no open transaction."""
    right = ProducerEntry(PRODUCER, 3, 6, 0, -1, ())
    assert found(tmp_path, right, log=ENDED) == []
    problem = "has an open transaction from 5, which a marker ended"
    assert found(tmp_path, replace(right, current_txn_first_offset=5), log=ENDED) == [(10, problem)]
    assert [at for at, _ in found(tmp_path, replace(right, producer_epoch=2), log=ENDED)] == [9, 10]


def test_an_empty_batch_whose_marker_was_compacted_is_no_open_transaction(tmp_path: Path) -> None:
    rest = LOG[-1:].copy()
    rest[0, layout.RECORD_COUNT] = 0
    closed = replace(RIGHT, current_txn_first_offset=-1)
    assert found(tmp_path, closed, log=rest) == []
    assert found(tmp_path, closed, log=LOG[-1:]) == [
        (8, "has an open transaction from -1, there is one from 8")
    ]


def test_a_transaction_whose_beginning_was_deleted_may_begin_below_the_log(tmp_path: Path) -> None:
    rest = LOG[3:]
    assert found(tmp_path, replace(RIGHT, current_txn_first_offset=5), log=rest) == []
    assert found(tmp_path, replace(RIGHT, current_txn_first_offset=9), log=rest) == [
        (8, "has an open transaction from 9, there is one from 8")
    ]


@pytest.mark.parametrize("at", [0, 3, 9, 20, -1])
def test_a_damaged_snapshot_cannot_be_read(tmp_path: Path, at: int) -> None:
    data = bytearray(encode([RIGHT]))
    data[at] ^= 1
    (tmp_path / f"{AT:020d}.snapshot").write_bytes(data)
    below = Producers()
    assert [each[3] for each in snapshot_problems(str(tmp_path), AT, below)] == ["cannot be read"]
    assert snapshots_in(str(tmp_path)) == [AT]


def test_a_short_snapshot_cannot_be_read_and_a_removed_one_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / f"{AT:020d}.snapshot"
    path.write_bytes(encode([RIGHT])[:20])
    assert [each[3] for each in snapshot_problems(str(tmp_path), AT, Producers())] == ["cannot be read"]
    path.unlink()
    assert list(snapshot_problems(str(tmp_path), AT, Producers())) == []


def test_a_producer_that_a_snapshot_lacks(tmp_path: Path) -> None:
    """Entries expire after a day, the oldest first; one without a batch there is not expected."""
    hour = 3_600_000

    def lacking(own_ms: int, other_ms: int, newest_ms: int, **other: int) -> list[int]:
        log = rows(
            row(0, 3, MAX_TIMESTAMP=own_ms, PRODUCER_ID=1),
            row(4, 5, MAX_TIMESTAMP=other_ms, PRODUCER_ID=2, **other),
            row(6, 7, MAX_TIMESTAMP=newest_ms, PRODUCER_ID=3, BASE_SEQUENCE=0),
        )
        known = [
            ProducerEntry(number, 0, -1, 0, -1, (BatchMetadata(0, 1, base, base + 1, 0),))
            for number, base in ((2, 4), (3, 6))
        ]
        assert found(tmp_path, log=log) == [], "all of them may have expired"
        return [at for at, problem in found(tmp_path, *known, log=log) if problem == "lacks the producer 1"]

    assert lacking(2 * hour, 2 * hour - 1, 9 * hour) == [3], "an older one is there"
    assert lacking(2 * hour, 2 * hour, 9 * hour) == []
    assert lacking(2 * hour, 2 * hour, 3 * hour - 1) == [3], "it cannot have expired yet"
    assert lacking(2 * hour, 2 * hour, 3 * hour) == []


@pytest.mark.parametrize(
    ("log", "begun", "expected_ms", "allowed"),
    [
        (rows(row(0, 3, MAX_TIMESTAMP=50), row(4, 5, MAX_TIMESTAMP=20)), -1, 20, ()),
        (rows(row(4, 5, ATTRIBUTES=DATA, MAX_TIMESTAMP=20)), 4, 20, ()),
        (
            rows(row(4, 5, ATTRIBUTES=DATA, MAX_TIMESTAMP=90), row(6, ATTRIBUTES=MARKER, MAX_TIMESTAMP=70)),
            -1, 70, (71,),
        ),
        (rows(row(4, 5, MAX_TIMESTAMP=20, RECORD_COUNT=1)), -1, 20, (19, 21)),
        (rows(row(4, 5, ATTRIBUTES=DATA, MAX_TIMESTAMP=20, RECORD_COUNT=0)), -1, 20, (19, 21)),
    ],
)  # fmt: skip
def test_the_time_of_an_entry_is_that_of_its_last_batch_or_marker(
    tmp_path: Path, log: Words, begun: int, expected_ms: int, allowed: tuple[int, ...]
) -> None:
    """A later marker may be compacted, and so may the record of a batch that has its highest
    time."""
    for there in (expected_ms, expected_ms - 1, expected_ms + 1):
        entry = ProducerEntry(PRODUCER, 0, 0, there, begun, (BatchMetadata(0, 1, 4, 5, 0),))
        right = there == expected_ms or there in allowed
        problems = [] if right else [f"has the time {there}, there is {expected_ms}"]
        assert [problem for _, problem in found(tmp_path, entry, log=log)] == problems
