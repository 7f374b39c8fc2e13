"""Docstrings and comments are wrapped at 100 columns; nothing else of a module changes."""

import pytest

from docs.wrap import COLUMNS
from docs.wrap_code import too_long, wrapped

LONG = "word " * 40


def test_a_docstring_is_wrapped_with_its_quotes_beside_the_text() -> None:
    lines = wrapped(f'def f():\n    """{LONG.strip()}."""\n    return 1\n').splitlines()
    assert all(len(line) <= COLUMNS for line in lines)
    assert lines[1].startswith('    """word')
    assert all(line.startswith("    word") for line in lines[2:-1])
    assert lines[-2].endswith('word."""')
    assert lines[-1] == "    return 1"


def test_quotes_on_their_own_line_stay_there() -> None:
    lines = wrapped(f'"""{LONG}\n\nShort.\n"""\n').splitlines()
    assert lines[-3:] == ["", "Short.", '"""']


def test_each_paragraph_and_item_is_wrapped_separately() -> None:
    lines = wrapped(f'"""Head.\n\n- {LONG}\n- short\n\n{LONG}"""\n').splitlines()
    assert lines[2].startswith("- word")
    assert lines[3].startswith("  word")
    assert "- short" in lines
    assert lines[lines.index("- short") + 1] == ""


def test_a_comment_is_wrapped_at_its_indentation() -> None:
    lines = wrapped(f"if True:\n    # {LONG}\n    # and more\n    x = 1\n").splitlines()
    assert all(len(line) <= COLUMNS for line in lines)
    assert all(line.startswith("    # ") for line in lines[1:-1])
    assert lines[-2].endswith("and more")


@pytest.mark.parametrize(
    "kept",
    [
        f'x = """\n# {LONG}\n"""\n',
        f"# noqa: {LONG}\n",
        f'"""Head.\n\n| {LONG} |\n"""\n',
        f'"""Head.\n\nname    {LONG}\n"""\n',
        f"x = 1  # {LONG}\n",
        f'x = "{LONG}"\n',
    ],
    ids=["string", "pragma", "table", "columns", "beside code", "text"],
)
def test_text_that_is_no_prose_stays(kept: str) -> None:
    assert wrapped(kept) == kept
    assert not too_long(kept)


def test_a_span_of_code_stays_in_one_piece() -> None:
    text = " ".join(f"``span number {n}``" for n in range(12))
    lines = wrapped(f'"""{text}"""\n').splitlines()
    assert len(lines) > 1
    assert all(line.count("``") % 2 == 0 for line in lines)
