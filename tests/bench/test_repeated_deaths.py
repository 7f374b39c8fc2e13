"""A broker that dies again and again: the figures of each start are those of that start alone."""

import re
import shutil
from pathlib import Path

import pytest

from bench.repeated_deaths import Start, checked, main, row, writers

LINES = """\
io 0: recovery: 3 of 10 logs loaded, 120 MB checked in 1.0 s
io 0: recovery: 10 of 10 logs loaded, 400 MB checked in 3.1 s
io 1: recovery: 12 of 12 logs loaded, 30 MB checked in 3.3 s
io 1: recovery: 1 of 11 logs loaded, 7 MB checked in 1.0 s
"""


def test_bytes_count_once_in_the_last_line_of_each_worker() -> None:
    assert checked(LINES) == (22, 430)
    assert checked("kbroker ready") == (0, 0)


@pytest.mark.parametrize(("partitions", "connections"), [(1, 1), (10, 10), (1000, 50), (51, 17), (53, 1)])
def test_every_connection_fills_the_same_number_of_partitions(partitions: int, connections: int) -> None:
    assert writers(partitions) == connections


def test_a_row_names_the_kill() -> None:
    assert row(2, Start(0.634, 1250, 0.91)) == "| 2 | 0.63 s | 1,250 MB | 0.91 s |"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is C: needs cc")
def test_each_death_has_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--gb", "0.05", "--partitions", "20", "--deaths", "2", "--folder", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^\| (\d) \| [\d.]+ s \| (\d+) MB \| [\d.]+ s \|$", out, re.MULTILINE)
    assert [number for number, _ in rows] == ["1", "2"]
    assert all(20 <= int(mb) <= 60 for _, mb in rows), rows
