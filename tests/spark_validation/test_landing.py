"""The log as Parquet: file by file, whole or not at all, with every column as the segment source
gives it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyarrow import parquet

from spark_validation.segments import schemas
from spark_validation.segments.landing import write
from spark_validation.segments.source import SegmentReader
from tests.spark_validation.world import RUN, clean
from tests.spark_validation.world_files import write_log

NAMES = list(schemas.RECORD)


def reader(folder: Path) -> SegmentReader:
    return SegmentReader({"path": str(folder), "run": str(RUN), "control": "true"}, NAMES)


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
def test_written_rows_are_those_of_the_source(tmp_path: Path, mode: str) -> None:
    topic = clean("t", 1, mode)
    write_log(tmp_path, topic, topic.log)
    source = reader(tmp_path)
    for number, work in enumerate(source.partitions()):
        path = tmp_path / f"{number}.parquet"
        write(source.read(work), f"{tmp_path}/_{number}", str(path))
        given = pa.Table.from_batches(source.read(work))
        assert given.num_rows
        assert parquet.read_table(path).cast(given.schema).equals(given)
    assert not list(tmp_path.glob("_*"))


def test_a_task_that_fails_leaves_no_file_that_spark_reads(tmp_path: Path) -> None:
    topic = clean("t", 1)
    write_log(tmp_path, topic, topic.log)
    source = reader(tmp_path)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from source.read(source.partitions()[0])
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write(failing(), str(tmp_path / "_0"), str(tmp_path / "0.parquet"))
    assert not (tmp_path / "0.parquet").exists()


def test_an_empty_log_gives_no_rows_and_no_file(tmp_path: Path) -> None:
    source = reader(tmp_path)
    assert source.partitions() == []
    assert list(source.read(None)) == []
    write(source.read(None), str(tmp_path / "_0"), str(tmp_path / "0.parquet"))
    assert list(tmp_path.iterdir()) == []
