"""The files of a history: rolled by age and by rows, numbered, and whole when they have their
name."""

import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from loadtest import history_process
from loadtest.history import COMMITS
from loadtest.history_process import HistoryProcess, as_table, count
from tests.loadtest.histories import columns


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The present time."""
    found = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: found[0])
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "commits").iterdir())


def offsets(folder: Path, number: int) -> list[int]:
    found = pq.ParquetFile(folder / "commits" / f"c1-{number:04d}.parquet").read()["offset"].to_pylist()
    assert isinstance(found, list)
    return found


def test_a_file_is_whole_once_it_has_its_age(tmp_path: Path, now: list[float]) -> None:
    made = HistoryProcess(tmp_path, "c1", 5.0)
    made.write("commits", columns(0, 3))
    now[0] += 4.9
    made.write("commits", columns(3, 2))
    made.roll(now[0])
    assert names(tmp_path) == [".c1-0000.parquet.part"]
    now[0] = 105.0
    made.roll(now[0])
    assert names(tmp_path) == ["c1-0000.parquet"]
    assert offsets(tmp_path, 0) == [0, 1, 2, 3, 4]
    made.write("commits", lambda: columns(5, 1))
    made.roll(now[0] + 4.9)
    made.roll(now[0] + 5.0)
    assert offsets(tmp_path, 1) == [5]
    assert names(tmp_path) == ["c1-0000.parquet", "c1-0001.parquet"]


@pytest.mark.usefixtures("now")
def test_a_file_is_whole_once_it_has_enough_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_process, "ROLL_ROWS", 10)
    monkeypatch.setattr(history_process, "ROW_GROUP", 5)
    made = HistoryProcess(tmp_path, "c1", 3600.0)
    made.write("commits", columns(0, 9))
    made.roll(100.0)
    assert names(tmp_path) == [".c1-0000.parquet.part"]
    made.write("commits", columns(9, 4))  # fewer than a group: held
    made.roll(100.0)
    assert names(tmp_path) == [".c1-0000.parquet.part"]
    made.write("commits", columns(13, 1))
    made.roll(100.0)
    assert offsets(tmp_path, 0) == list(range(14))


@pytest.mark.usefixtures("now")
def test_each_kind_has_its_own_files(tmp_path: Path) -> None:
    made = HistoryProcess(tmp_path, "c1", 3600.0)
    made.write("commits", columns(0, 2))
    made.roll(float("inf"))
    made.write("commits", columns(2, 2))
    copies = {name: [1] for name in ("producer", "seq", "transaction", "input_partition", "input_offset")}
    made.write("copies", {**copies, "group": "g", "input_topic": "t"})
    made.roll(float("inf"))
    assert names(tmp_path) == ["c1-0000.parquet", "c1-0001.parquet"]
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["c1-0000.parquet"]


def test_blocks_with_a_value_for_all_rows_are_joined_with_others() -> None:
    one, other = columns(0, 2), columns(2, 3)
    other["error"], other["topic"], other["consumer"] = 5, "u", [7, 8, 9]
    table = as_table("commits", [one, other])
    assert table.schema.names == COMMITS.names
    assert table["error"].to_pylist() == [0, 0, 5, 5, 5]
    assert table["topic"].to_pylist() == ["t", "t", "u", "u", "u"]
    assert table["consumer"].to_pylist() == [1, 1, 7, 8, 9]
    assert table["group"].to_pylist() == ["g"] * 5
    assert table["transaction"].to_pylist() == [-1] * 5


def test_a_block_has_as_many_rows_as_its_columns() -> None:
    assert count(columns(0, 4)) == 4
    assert count({"a": 1, "b": [1, 2]}) == 2
    assert count({"a": np.zeros(3), "b": "text"}) == 3


def test_a_missing_column_is_an_error() -> None:
    block = columns(0, 2)
    del block["answered_ns"]
    with pytest.raises(KeyError):
        as_table("commits", [block])
