"""Index files that are missing or hold nothing, against batches made by hand. No Spark."""

import struct
from pathlib import Path

import pytest

from kbroker.protocol.records import build_batch
from spark_validation.segments import layout, schemas
from spark_validation.segments.index_check import BEGINS_LATE, read_problems
from spark_validation.segments.index_files import EMPTY, MISSING, SPARSE, IndexFiles
from spark_validation.segments.layout import Words
from spark_validation.segments.ranges import plan
from tests.spark_validation.batch_rows import row, rows
from tests.spark_validation.world import patched

BYTES = 100  # of a batch


def put(folder: Path, segment: int, suffix: str, data: bytes = b"") -> None:
    (folder / f"{segment:020d}{suffix}").write_bytes(data)


def batches(count: int, first: int = 0, stamp: int = 5) -> Words:
    return rows(*(row(first + n, POSITION=n * BYTES, MAX_TIMESTAMP=stamp) for n in range(count)))


def found(folder: Path, segment: int, log: Words, known: bool = False) -> list[tuple[str, str]]:
    problems = IndexFiles(str(folder), known).problems(segment, log)
    return [(suffix, problem) for suffix, _, _, problem in problems]


def entries(*positions: int) -> bytes:
    return b"".join(struct.pack(">ii", position // BYTES, position) for position in positions)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two segments; the second one has both indexes."""
    for segment in (0, 50):
        put(tmp_path, segment, layout.LOG_FILE)
    put(tmp_path, 50, layout.INDEX_FILE, entries(BYTES, 3 * BYTES))
    put(tmp_path, 50, layout.TIME_INDEX_FILE, struct.pack(">qi", 5, 1))
    return tmp_path


BOTH = [(layout.INDEX_FILE, MISSING), (layout.TIME_INDEX_FILE, MISSING)]


def test_a_segment_has_the_files_that_another_one_has(folder: Path) -> None:
    assert found(folder, 0, batches(1)) == BOTH
    assert found(folder, 0, batches(0)) == [], "it holds no batch"
    (folder / f"{50:020d}.index").unlink()
    assert found(folder, 0, batches(1)) == BOTH[1:]
    assert found(folder, 0, batches(1), known=True) == BOTH


def test_files_of_a_segment_that_retention_took_are_not_missing(folder: Path) -> None:
    (folder / f"{0:020d}.log").rename(folder / f"{0:020d}.log.deleted")
    assert found(folder, 0, batches(1), known=True) == []


def test_an_index_without_entries_belongs_to_a_short_segment(folder: Path) -> None:
    put(folder, 0, layout.TIME_INDEX_FILE)
    put(folder, 0, layout.INDEX_FILE, bytes(16))
    assert found(folder, 0, batches(SPARSE + 1)) == []
    assert found(folder, 0, batches(SPARSE + 2)) == [(layout.INDEX_FILE, EMPTY)]
    put(folder, 50, layout.INDEX_FILE)
    assert found(folder, 0, batches(100)) == [], "nothing shows the interval"


def test_a_time_index_has_an_entry_as_soon_as_the_other_one_has(folder: Path) -> None:
    put(folder, 50, layout.TIME_INDEX_FILE, bytes(12))
    assert found(folder, 50, batches(4, 50)) == [(layout.TIME_INDEX_FILE, EMPTY)]
    assert found(folder, 50, batches(4, 50, stamp=-1)) == [], "the records have no timestamps"


def test_a_known_broker_has_all_files_beside_a_log(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    made = build_batch([(b"k", b"v", (), 1)], base_offset=0)
    put(partition, 0, layout.LOG_FILE, patched(made, {"leader_epoch": 0}))
    (work,) = plan([str(tmp_path)], ["orders"], empty=True)
    names = list(schemas.INDEX)
    problems = [found.to_pylist()[0] for found in read_problems(work, names, indexed=True)]
    assert {(row["file"], row["problem"]) for row in problems} == {
        *BOTH,
        (layout.EPOCHS_FILE, f"{BEGINS_LATE} 0"),
    }
    assert list(read_problems(work, names)) == [], "of another broker nothing is known"
