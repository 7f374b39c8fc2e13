"""Many small files of a history are read as one, with the same rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadtest.history import KINDS
from spark_validation import merged_files
from spark_validation.merged_files import MANY_FILES, merged, row_groups

SCHEMA = KINDS["commits"]


def row(number: int) -> dict[str, object]:
    """A commit of which each column has a value of its own."""
    values: dict[str, object] = {}
    for at, field in enumerate(SCHEMA):
        value: object = f"{field.name}-{number}" if field.type == pa.string() else (number + at) % 100
        values[field.name] = bool(number % 2) if field.type == pa.bool_() else value
    return values


def write(folder: Path, files: int, without: str = "") -> list[dict[str, object]]:
    """Files of three rows each, or of none; returns all rows. without: a column that the files of
    an older client lack."""
    folder.mkdir()
    schema = pa.schema([field for field in SCHEMA if field.name != without])
    rows = []
    for number in range(files):
        of_file = [row(3 * number + at) for at in range(3)] if number % 10 else []
        table = pa.Table.from_pylist(of_file, SCHEMA).select(schema.names)
        pq.write_table(table, folder / f"c{number:06d}-0000.parquet")
        rows += [one | ({without: None} if without else {}) for one in of_file]
    return rows


@pytest.mark.parametrize("without", ["", SCHEMA.names[-1]])
def test_many_small_files_become_one(tmp_path: Path, without: str) -> None:
    rows = write(tmp_path / "commits", MANY_FILES, without)
    folder = merged(tmp_path / "commits", "commits", tmp_path / "copy")
    assert [file.name for file in folder.iterdir()] == ["all.parquet"]
    assert folder.parent == tmp_path / "copy"
    found = pq.read_table(folder / "all.parquet")
    assert found.schema.equals(SCHEMA)
    assert found.to_pylist() == rows


def test_few_or_large_files_are_read_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "few", MANY_FILES - 1)
    assert merged(tmp_path / "few", "commits", tmp_path / "copy") == tmp_path / "few"
    write(tmp_path / "large", MANY_FILES)
    monkeypatch.setattr(merged_files, "SMALL_FILE_BYTES", 100)
    assert merged(tmp_path / "large", "commits", tmp_path / "copy") == tmp_path / "large"
    assert not (tmp_path / "copy").exists()


def test_a_file_that_cannot_be_read_is_left_to_spark(tmp_path: Path) -> None:
    write(tmp_path / "commits", MANY_FILES)
    (tmp_path / "commits" / "c000001-0000.parquet").write_bytes(b"torn")
    assert merged(tmp_path / "commits", "commits", tmp_path / "copy") == tmp_path / "commits"


def test_rows_of_many_files_share_a_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_files, "ROWS_AT_ONCE", 5)
    batches = [pa.RecordBatch.from_pydict({"a": [n, n]}) for n in range(6)]
    assert [table.num_rows for table in row_groups(batches)] == [6, 6]
    assert [table.num_rows for table in row_groups(batches[:4])] == [6, 2]
    assert not [*row_groups([])]
