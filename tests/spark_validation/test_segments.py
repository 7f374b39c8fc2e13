"""The segment source against the plain decoder of kbroker, and what ranges and transactions come
out."""

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kbroker.protocol.compression import Codec
from kbroker.protocol.records import ControlType, build_batch, read_batches, read_records
from spark_validation.segments import decode, index_check, layout, schemas, tail, walk
from spark_validation.segments.headers import control_record
from spark_validation.segments.layout import (
    BASE_OFFSET,
    COMMIT,
    CONTROL_TYPE,
    HEADER_BYTES,
    PRODUCER_ID,
    Fault,
)
from spark_validation.segments.ranges import Range, bundled, cut_positions, plan
from spark_validation.segments.walk import ABORTED, CONTROL, OPEN, VISIBLE
from tests.spark_validation.world import RUN, Batch, Topic, clean
from tests.spark_validation.world_files import write_log

COLUMNS = [name for name in schemas.RECORD if name not in ("topic", "timestamp")]


def written(folder: Path, topic: Topic) -> list[Range]:
    write_log(folder, topic, topic.log)
    return plan([str(folder)], [])


def rows_of(works: list[Range], names: list[str], control: bool = False) -> list[dict[str, object]]:
    batches = [batch for work in works for batch in decode.read_records(work, names, RUN, control, False)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_those_of_the_plain_decoder(tmp_path: Path, codec: Codec) -> None:
    topic = clean("t", 1, codec=codec)
    works = written(tmp_path, topic)
    plain = [
        (work.partition, record.offset, record.key, record.value, record.timestamp_ms)
        for work in works
        for piece in work.pieces
        for batch in read_batches((Path(work.folder) / f"{piece.segment:020d}.log").read_bytes())
        for record in read_records(batch)
    ]
    found = rows_of(works, ["partition", "offset", "key", "value", "timestamp_ms"])
    assert [tuple(row.values()) for row in found] == plain


def test_identity_columns_say_what_was_sent(tmp_path: Path) -> None:
    topic = clean("t", 1)
    found = rows_of(written(tmp_path, topic), COLUMNS)
    sent = sorted(
        (row["partition"], row["offset"], row["key"], row["producer"], row["seq"], row["partition_seq"])
        for row in topic.rows["sends"]
    )
    names = ("partition", "offset", "record_key", "producer", "seq", "partition_seq")
    assert [tuple(row[name] for name in names) for row in found] == sent
    assert all(row["intact"] for row in found)
    assert [row["sequence"] for row in found] == [row["partition_seq"] for row in found]


def test_only_keys_and_values_are_ever_null(tmp_path: Path) -> None:
    """Spark does not look for nulls in the columns that `ddl` says have none."""
    folder = tmp_path / "plain" / "t-0"
    folder.mkdir(parents=True)
    records = [(None, b"v", (), 1), (b"k", None, (), 2), (None, None, (), 3), (b"", b"", (), 4)]
    (folder / f"{0:020d}.log").write_bytes(build_batch(records, base_offset=0))
    plain = rows_of(plan([str(folder.parent)], []), list(schemas.RECORD), control=True)
    marked = rows_of(
        written(tmp_path / "marked", clean("m", 1, "transactional")), list(schemas.RECORD), control=True
    )
    assert len(plain) == len(records)
    assert any(row["state"] == CONTROL for row in marked)
    assert nulls(plain) == set(schemas.NULLABLE)
    assert nulls(marked) <= set(schemas.NULLABLE)
    columns = schemas.ddl(schemas.RECORD, schemas.RECORD).split(", ")
    assert [column.split()[0] for column in columns if not column.endswith("NOT NULL")] == [*schemas.NULLABLE]


def nulls(rows: list[dict[str, object]]) -> set[str]:
    return {name for row in rows for name in row if row[name] is None}


def test_an_altered_value_and_another_run_are_not_intact(tmp_path: Path) -> None:
    topic = clean("t", 1)
    _, record, _ = topic.records()[3]
    record.value = record.bytes()[:-1] + b"X"
    found = rows_of(written(tmp_path, topic), ["partition", "offset", "intact"])
    assert [(row["partition"], row["offset"]) for row in found if not row["intact"]] == [(0, 3)]
    works = plan([str(tmp_path)], [])
    others = [b for work in works for b in decode.read_records(work, ["intact"], RUN + 1, False, False)]
    assert not any(flag for batch in others for flag in batch.column(0).to_pylist())


def test_a_whole_record_of_another_run_has_a_producer_of_its_own(tmp_path: Path) -> None:
    """What is altered as well keeps its numbers: its run's may be what was altered."""
    topic = clean("t", 1)
    _, record, _ = topic.records()[3]
    record.value = record.bytes()[:-1] + b"X"
    works = written(tmp_path, topic)
    names = ["producer", "seq", "partition_seq", "intended_ns"]
    for work in works:
        own = [r for b in decode.read_records(work, names, RUN, False, False) for r in b.to_pylist()]
        other = [r for b in decode.read_records(work, names, RUN + 1, False, False) for r in b.to_pylist()]
        foreign = [{**row, "producer": -2, "seq": -1, "partition_seq": -1} for row in own]
        if work.partition == 0:
            foreign[3] = own[3]
        assert other == foreign


def test_a_transactions_fate_is_known_across_segments(tmp_path: Path) -> None:
    topic = clean("t", 1, "transactional")
    topic.log[1].pop()  # the last transaction of partition 1 stays open
    found = rows_of(
        written(tmp_path, topic), ["partition", "offset", "state", "producer", "seq"], control=True
    )
    outcome = {
        (row["producer"], seq): row["outcome"]
        for row in topic.rows["transactions"]
        for seq in range(row["first_seq"], row["last_seq"] + 1)
    }
    for row in found:
        last_of_1 = row["partition"] == 1 and row["offset"] >= topic.log[1][-1].base  # type: ignore[operator]
        if row["state"] == CONTROL:
            continue
        expected = OPEN if last_of_1 else (VISIBLE, ABORTED)[outcome[row["producer"], row["seq"]]]  # type: ignore[index]
        assert row["state"] == expected
    assert sum(row["state"] == CONTROL for row in found) == 23


def test_small_ranges_read_the_same_as_one(tmp_path: Path) -> None:
    topic = clean("t", 1, "transactional")
    whole = rows_of(written(tmp_path, topic), COLUMNS)
    parts = plan([str(tmp_path)], [], split_bytes=1)
    assert len(parts) == 12  # six segments, each cut once by its index
    assert rows_of(parts, COLUMNS) == whole


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_a_batch_that_ends_with_the_chunk_ends_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    batch = [build_batch([(b"k", b"v", (), 1)], base_offset=offset) for offset in range(10)]
    monkeypatch.setattr(walk, "CHUNK_BYTES", batches * len(batch[0]))
    for segment in (0, 5):
        (folder / f"{segment:020d}.log").write_bytes(b"".join(batch[segment : segment + 5]))
    works = plan([str(tmp_path)], [])
    assert [row["offset"] for row in rows_of(works, ["offset"])] == [*range(10)]
    headers = pa.Table.from_batches(
        [found for work in works for found in decode.read_headers(work, ["fault"], True)]
    )
    assert set(headers["fault"].to_pylist()) == {Fault.SOUND}


def test_a_batch_larger_than_the_chunk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    monkeypatch.setattr(walk, "CHUNK_BYTES", 100)
    log = build_batch([(b"k", b"v" * 300, (), 1)], base_offset=0)
    for behind in (b"", build_batch([(b"k", b"v", (), 1)], base_offset=1)):
        (folder / f"{0:020d}.log").write_bytes(log + behind)
        found = rows_of(plan([str(tmp_path)], []), ["offset"])
        assert [row["offset"] for row in found] == [0, 1][: 1 + bool(behind)]


def test_a_few_bytes_after_complete_batches_may_be_a_write_in_progress(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = build_batch([(b"k", b"v", (), 1)], base_offset=0)
    (folder / f"{0:020d}.log").write_bytes(log + b"\xff" * (HEADER_BYTES - 1))
    found = [
        fault
        for work in plan([str(tmp_path)], [])
        for batch in decode.read_headers(work, ["fault"], True)
        for fault in batch["fault"].to_pylist()
    ]
    assert found == [Fault.SOUND]


def test_a_large_segment_is_cut_only_where_its_index_is_right(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    batch = [build_batch([(b"k", b"v", (), 1)], base_offset=offset) for offset in range(10)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batch))
    size = len(batch[0])

    def cuts(offset: int, position: int) -> list[int]:
        (folder / f"{0:020d}.index").write_bytes(struct.pack(">ii", offset, position))
        return cut_positions(str(folder), 0, 10 * size, 5 * size)

    assert cuts(5, 5 * size) == [5 * size]
    for offset, position in ((5, 5 * size + 1), (6, 5 * size), (4, 5 * size)):
        assert cuts(offset, position) == []
    (folder / f"{0:020d}.log").write_bytes(b"".join(each[:16] + b"\1" + each[17:] for each in batch))
    assert cuts(5, 5 * size) == []


def test_batches_know_the_marker_that_ended_them(tmp_path: Path) -> None:
    (work, *_) = written(tmp_path, clean("t", 1, "transactional"))
    chunks = [chunk.rows.copy() for chunk in walk.chunks(work.folder, work.pieces, False)]
    rows = np.concatenate(chunks)
    found = walk.batch_states(work)
    states = np.concatenate([each.state for each in found])
    marked = np.concatenate([each.marker for each in found])
    ended = 0
    for n in np.flatnonzero((states == VISIBLE) | (states == ABORTED)).tolist():
        producer = rows[n, PRODUCER_ID]
        first = next(
            m for m in range(n, len(rows)) if states[m] == CONTROL and rows[m, PRODUCER_ID] == producer
        )
        assert marked[n] == rows[first, BASE_OFFSET]
        assert (states[n] == VISIBLE) == (rows[first, CONTROL_TYPE] == COMMIT)
        ended += 1
    assert ended > 10
    assert set(marked[states == CONTROL].tolist()) == {-1}


def test_garbage_after_complete_batches_is_damage_in_the_newest_segment_too(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = build_batch([(b"k", b"v", (), 1)], base_offset=0)
    for behind, damaged in ((b"\xff" * 100, True), (bytes(100), False)):
        (folder / f"{0:020d}.log").write_bytes(log + behind)
        works = plan([str(tmp_path)], [])
        found = pa.Table.from_batches(
            [found for work in works for found in decode.read_headers(work, ["fault"], True)]
        )
        assert [fault != Fault.SOUND for fault in found["fault"].to_pylist()] == (
            [False, True] if damaged else [False]
        )


def test_a_torn_end_is_damage_only_before_the_newest_segment(tmp_path: Path) -> None:
    works = written(tmp_path, clean("t", 1))
    folder = Path(works[0].folder)
    segments = sorted(folder.glob("*.log"))
    assert len(segments) == 2
    for segment in segments:
        segment.write_bytes(segment.read_bytes()[:-7])
    torn = plan([str(tmp_path)], [])[0]
    faults = [
        (row["segment"], row["fault"])
        for batch in decode.read_headers(torn, ["segment", "fault"], True)
        for row in batch.to_pylist()
        if row["fault"] != 1
    ]
    assert faults == [(0, 2)]


def test_a_wrong_checksum_is_named_and_its_records_are_still_read(tmp_path: Path) -> None:
    topic = clean("t", 1)
    topic.log[0][2].broken_crc = True
    works = written(tmp_path, topic)
    faults = [r for b in decode.read_headers(works[0], ["base_offset", "fault"], True) for r in b.to_pylist()]
    assert [row["base_offset"] for row in faults if row["fault"] == 6] == [10]
    assert len(rows_of(works, ["offset"])) == 120


def test_index_entries_that_point_between_batches_are_found(tmp_path: Path) -> None:
    topic = clean("t", 1)
    topic.spoiled_index = True
    works = written(tmp_path, topic)
    found = [
        row
        for work in works
        for b in index_check.read_problems(work, list(schemas.INDEX))
        for row in b.to_pylist()
    ]
    assert [(row["partition"], row["segment"], row["file"]) for row in found] == [(0, 0, ".index")]


OF_A_KNOWN_BROKER = {".txnindex", ".timeindex", "leader-epoch-checkpoint"}
"""Files that the planted segments lack."""


def test_a_broker_that_indexes_every_aborted_transaction(tmp_path: Path) -> None:
    """Without a file the index of another one proves nothing."""
    topic = clean("t", 1, "transactional")
    works = written(tmp_path, topic)
    aborts = [batch.base for batch in topic.log[0] if batch.control == ControlType.ABORT]

    def found(indexed: bool) -> list[int]:
        rows = [
            row
            for b in index_check.read_problems(works[0], list(schemas.INDEX), indexed)
            for row in b.to_pylist()
        ]
        assert {row["file"] for row in rows} <= (OF_A_KNOWN_BROKER if indexed else {".txnindex"})
        return [row["offset"] for row in rows if row["file"] == ".txnindex"]

    assert found(True) == aborts
    assert aborts
    assert found(False) == []


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (0, b"", (1, 7)),
        (5, b"\0\1", (1, -1)),  # the version of its key
        (7, b"\0\2", (2, 7)),
        (10, b"\xff\xff", (1, -1)),  # of its value
        (10, b"\0\1", (1, 7)),
        (12, b"\0\0\0\1", (1, 1)),
    ],
)
def test_a_marker_is_read_in_every_version(at: int, value: bytes, expected: tuple[int, int]) -> None:
    marker = Batch(0, [], 9, control=ControlType.COMMIT, coordinator_epoch=7).bytes(Codec.NONE)
    record = bytearray(marker[layout.HEADER_BYTES :])
    record[at : at + len(value)] = value
    assert control_record(memoryview(record)) == expected


def test_a_segment_begins_with_the_offset_in_its_name(tmp_path: Path) -> None:
    works = written(tmp_path, clean("t", 1))
    folder = Path(works[0].folder)
    (folder / f"{50:020d}.log").rename(folder / f"{47:020d}.log")
    work = next(work for work in plan([str(tmp_path)], []) if work.folder == str(folder))
    found = [row for b in index_check.read_problems(work, list(schemas.INDEX)) for row in b.to_pylist()]
    assert [(row["file"], row["offset"], row["problem"]) for row in found] == [
        (".log", 50, "starts above the offset in its name"),
        (".index", 47, "is missing"),
    ]


def test_the_tail_ends_after_the_last_complete_batch(tmp_path: Path) -> None:
    topic = clean("t", 1)
    works = written(tmp_path, topic)
    folder = works[0].folder
    newest = max(Path(folder).glob("*.log"))
    size = newest.stat().st_size
    middle = tail.end_of(folder, tail.START)
    assert middle == (int(newest.stem), size)
    with open(newest, "ab") as log:
        log.write(topic.log[0][0].bytes(Codec.NONE)[:-3])
    assert tail.end_of(folder, middle) == middle
    first = tail.between(folder, "t", 0, tail.START, middle)
    assert first is not None
    assert len(rows_of([first], ["offset"])) == 60
    segments = sorted(int(path.stem) for path in Path(folder).glob("*.log"))
    before = tail.between(folder, "t", 0, tail.START, (segments[0], 1 << 40))
    assert before is not None
    assert [piece.segment for piece in before.pieces] == segments[:1]
    assert tail.between(folder, "t", 0, middle, middle) is None


def test_small_ranges_share_a_task_and_none_is_lost(tmp_path: Path) -> None:
    works = written(tmp_path, clean("t", 1)) + plan([str(tmp_path)], [], split_bytes=1)
    bundles = bundled(works)
    assert [work for bundle in bundles for work in bundle] == works
    assert len(bundles) == 1
    assert len(bundled(works, split_bytes=1)) == len(works)


def test_since_leaves_out_what_ends_below_and_other_partitions(tmp_path: Path) -> None:
    topic = clean("t", 1)
    written(tmp_path, topic)
    second = topic.log[1][10].base  # the second segment of partition 1 starts with the eleventh batch
    for since, first in ((second - 1, 0), (second, second), (second + 7, second)):
        works = plan([str(tmp_path)], [], since={"t-1": since})
        assert [(work.partition, work.pieces[0].segment) for work in works] == [(1, first)]
        assert {row["partition"] for row in rows_of(works, ["partition"])} == {1}
    assert plan([str(tmp_path)], [], since={"u-0": 0}) == []
    assert plan([str(tmp_path)], ["u"]) == []
    assert len(plan([str(tmp_path)], ["t"])) == len(plan([str(tmp_path)], [])) == 2
