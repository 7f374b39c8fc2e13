"""Targets stay inside the log; saved offsets come back."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.offset_strategies import LogRange, csv_lines, read_csv, shift
from kbroker.cli.partitions import parse_scope


@given(st.integers(0, 100), st.integers(0, 100), st.integers(-50, 250))
def test_clipping_gives_the_nearest_offset_of_the_log(start: int, length: int, target: int) -> None:
    held = LogRange(start, start + length)
    clipped = held.clip(target)
    assert held.earliest <= clipped <= held.latest
    assert clipped == target or not held.earliest <= target <= held.latest


def test_a_shift_needs_a_committed_offset() -> None:
    assert shift({("t", 0): 5}, ("t", 0), -2) == 3
    with pytest.raises(CommandFailed, match="t-1 has no committed offset"):
        shift({("t", 0): 5}, ("t", 1), 1)


def test_saved_offsets_come_back_for_one_group_and_for_many(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    rows = [("g", ("t", 0), 5), ("g", ("t.x", 12), 0), ("h", ("t", 0), 7)]
    file.write_text("\n".join(csv_lines(rows, with_group=True)) + "\n\n")
    assert read_csv(file, None) == {"g": {("t", 0): 5, ("t.x", 12): 0}, "h": {("t", 0): 7}}
    file.write_text("\n".join(csv_lines(rows[:2], with_group=False)))
    assert read_csv(file, "g") == {"g": {("t", 0): 5, ("t.x", 12): 0}}
    file.write_text('"t",0,5\n')  # Kafka's tool quotes names
    assert read_csv(file, "g") == {"g": {("t", 0): 5}}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_group_with_any_name_is_saved(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "offsets.csv"
        (line,) = csv_lines([(name, ("t", 0), 5)], with_group=True)
        file.write_bytes(f"{line}\n".encode())
        assert read_csv(file, None) == {name: {("t", 0): 5}}


@pytest.mark.parametrize(
    "text",
    [
        "t\n",
        "root:x:0:0:root\n",
        "t,0\n",
        "t,x,1\n",
        "t,0,-1\n",
        "a,b,c,d,e\n",
        "t,0,²\n",
        "t,0," + "9" * 5000,
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"t,0,1\n{text}")
    with pytest.raises(UsageFailed, match=r"offsets\.csv:2: expected topic,partition,offset"):
        read_csv(file, "g")


@pytest.mark.parametrize("content", [b"t,0,\xff\n", b't,0,"' + b"1" * 200_000])
def test_a_file_that_is_no_csv_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    with pytest.raises(UsageFailed, match=r"offsets\.csv: "):
        read_csv(file, "g")


def test_scopes_are_parsed_or_refused() -> None:
    assert parse_scope("orders") == ("orders", [])
    assert parse_scope("orders:0,3-5") == ("orders", [0, 3, 4, 5])
    for bad in ("", "orders:", "orders:x", "a:b:c", "orders:1,", "orders:5-3", "orders:0,5-3"):
        with pytest.raises(UsageFailed):
            parse_scope(bad)
