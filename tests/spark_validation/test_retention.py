"""Checkpoints of log directories, as the judge reads them."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.checks.retention import entries_in, offsets_in


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", []),
        ("0\n0\n", []),
        ("0\n2\na 0 5\nb-c 12 70\n", [(("a", 0), 5), (("b-c", 12), 70)]),
        ("0\n1\na 0 5\n\n", [(("a", 0), 5)]),
        ("0\n2\na 0 5\n", [(("a", 0), 5), (None, 3)]),
        ("0\n1\na 0 5\nb 0 6\n", [(("a", 0), 5), (("b", 0), 6), (None, 4)]),
        ("1\n1\na 0 5\n", [(("a", 0), 5), (None, 3)]),
        ("0\n", [(None, 1)]),
        ("0\n1\na 0 -5\n", [(None, 2)]),
        ("0\n2\na 0 5\na 0\n", [(("a", 0), 5), (None, 3)]),
        ("0\n1\na x 5\n", [(None, 2)]),
        ("0\n1\na 0 99999999999999999999\n", [(None, 2)]),
        ("0\n3\na 0 5\nb 0 5\na 0 6\n", [(("a", 0), 5), (("b", 0), 5), (None, 4)]),
    ],
)
def test_lines_that_are_no_entries_are_named(
    tmp_path: Path, content: str, found: list[tuple[tuple[str, int] | None, int]]
) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text(content)
    assert entries_in(path) == found
    assert offsets_in(path) == {place: offset for place, offset in found if place is not None}


def test_a_file_that_is_missing_has_no_entries(tmp_path: Path) -> None:
    assert entries_in(tmp_path / "none") == []
