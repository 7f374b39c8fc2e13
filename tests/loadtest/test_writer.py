"""History files are whole or not there, and hold every row in order."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from loadtest.history import COMMITS, KINDS
from loadtest.history_process import as_table
from loadtest.writer import HistoryWriter, NotWritten
from tests.loadtest.histories import columns


def test_all_rows_arrive_in_order_in_files_of_the_schema(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "c000001", roll_seconds=0)  # a file for each block
    for block in range(5):
        writer.add("commits", columns(block * 100, 100))
    writer.close()
    files = sorted((tmp_path / "commits").glob("*"))
    assert [file.name for file in files] == [f"c000001-{number:04d}.parquet" for number in range(5)]
    tables = [pq.ParquetFile(file).read() for file in files]
    assert all(table.schema.equals(COMMITS) for table in tables)
    assert [offset for table in tables for offset in table["offset"].to_pylist()] == list(range(500))


def test_a_module_of_the_current_folder_does_not_replace_the_load_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loadtest.py").write_text("raise SystemExit('this is the file of a user')\n")
    monkeypatch.chdir(tmp_path)
    writer = HistoryWriter(tmp_path, "c000001", roll_seconds=0)
    writer.add("commits", columns(0, 10))
    writer.close()
    assert list((tmp_path / "commits").iterdir())


def test_an_open_file_has_a_name_that_readers_skip(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "c000001", roll_seconds=3600)
    writer.add("commits", columns(0, 10))
    while not (tmp_path / "commits").exists() or not list((tmp_path / "commits").iterdir()):
        assert writer._process.poll() is None
    assert [file.name for file in (tmp_path / "commits").iterdir()] == [".c000001-0000.parquet.part"]
    writer.close()
    assert [file.name for file in (tmp_path / "commits").iterdir()] == ["c000001-0000.parquet"]


def test_a_row_that_does_not_fit_is_raised_where_the_next_is_added(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "c000001")
    writer.add("commits", {"offset": [1]})
    with pytest.raises(NotWritten):
        writer.close()


def test_rows_of_a_killed_client_are_written_and_sealed(tmp_path: Path) -> None:
    client = f"""
import os, signal
from pathlib import Path
from loadtest.writer import HistoryWriter
from tests.loadtest.histories import columns
writer = HistoryWriter(Path({str(tmp_path)!r}), "c000001", roll_seconds=3600)
for block in range(40):
    writer.add("commits", columns(block * 1000, 1000))
os.kill(os.getpid(), signal.SIGKILL)
"""
    dead = subprocess.run(
        [sys.executable, "-c", client], stdout=subprocess.PIPE
    )  # until its history process has ended, too
    assert dead.returncode == -signal.SIGKILL
    (file,) = (tmp_path / "commits").iterdir()
    assert pq.ParquetFile(file).read()["offset"].to_pylist() == list(range(40_000))


def test_a_client_notices_that_its_history_process_is_dead(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "c000001")
    (process,) = psutil.Process().children()
    process.kill()
    while process.status() != psutil.STATUS_ZOMBIE:  # reaping it is the writer's
        pass
    with pytest.raises(NotWritten, match="c000001 ended with"):
        writer.add("commits", columns(0, 10))
    with pytest.raises(NotWritten):
        writer.close()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_written_empty_of_surprises(kind: str) -> None:
    texts = {"string": ["x"], "bool": [True]}
    row: dict[str, Any] = {field.name: texts.get(str(field.type), [1]) for field in KINDS[kind]}
    assert as_table(kind, [row]).num_rows == 1
