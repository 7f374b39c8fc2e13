"""Missing files of histories are distinguished from clients that had none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from spark_validation.cut_files import cut_files


def cut(folder: Path, counted: dict[str, int] | None) -> dict[str, list[int]]:
    """Cut files of a consumer 7 that counted its files, or did not, and of a producer without
    any."""
    consumer: Any = SimpleNamespace(consumer=7, files=counted)
    producer: Any = SimpleNamespace(producer=7, files=None)
    return cut_files(folder, [producer], [consumer])


def files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


def test_all_that_were_counted_are_there(tmp_path: Path) -> None:
    files(tmp_path, "commits/c000007-0000.parquet", "commits/c000007-0001.parquet")
    assert cut(tmp_path, {"commits": 2, "reads": 0}) == {}
    assert cut(tmp_path, None) == {}


def test_the_last_file_is_missing_as_its_client_counted_it(tmp_path: Path) -> None:
    files(tmp_path, "commits/c000007-0000.parquet")
    assert cut(tmp_path, {"commits": 2, "assignments": 1}) == {
        "commits": [7],
        "assignments": [7],
    }


def test_a_file_before_another_one_is_missing_whichever_process_counted(tmp_path: Path) -> None:
    files(tmp_path, "shares/c000007-0000.parquet", "shares/c000007-0002.parquet")
    assert cut(tmp_path, None) == {"shares": [7]}


def test_files_of_producers_are_counted_by_producers(tmp_path: Path) -> None:
    files(tmp_path, "sends/p000003-0000.parquet", "copies/p000003-0000.parquet")
    consumer: Any = SimpleNamespace(consumer=4, files={"sends": 9})
    producer: Any = SimpleNamespace(producer=3, files={"sends": 2, "copies": 1, "reads": 4})
    assert cut_files(tmp_path, [producer], [consumer]) == {"sends": [3]}


def test_files_with_other_names_are_ignored(tmp_path: Path) -> None:
    files(tmp_path, "reads/part-0000-c000.snappy.parquet")
    assert cut(tmp_path, {"reads": 3}) == {}
