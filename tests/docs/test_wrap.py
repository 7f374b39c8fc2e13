"""The prose of pages is wrapped at 100 columns, and wrapping changes nothing but line breaks."""

from pathlib import Path

import pytest

from docs.generated import ROOT
from docs.wrap import COLUMNS, pages, too_long, wrapped

LONG = "word " * 40


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_prose_of_a_page_is_wrapped(page: Path) -> None:
    assert not too_long(page.read_text()), "make fmt wraps it"


def test_a_paragraph_is_wrapped() -> None:
    lines = wrapped(f"# Title\n\n{LONG}\n").splitlines()
    assert len(lines) > 3
    assert all(len(line) <= COLUMNS for line in lines)
    assert " ".join(lines[2:]) == LONG.strip()


def test_the_lines_of_an_item_keep_its_indent() -> None:
    lines = wrapped(f"1. {LONG}\n2. short\n").splitlines()
    assert lines[0].startswith("1. word")
    assert lines[1].startswith("   word")
    assert lines[-1] == "2. short"


@pytest.mark.parametrize(
    "kept", [f"| {LONG}|", f"    {LONG}", f"```sh\n{LONG}\n```", f"# {LONG}", f"<!-- {LONG}-->"]
)
def test_tables_code_headings_and_comments_stay(kept: str) -> None:
    assert wrapped(f"{kept}\n") == f"{kept}\n"
    assert not too_long(f"{kept}\n")


def test_short_lines_stay_apart() -> None:
    assert wrapped("one\ntwo\n") == "one\ntwo\n"


def test_no_line_begins_with_what_looks_like_a_mark() -> None:
    text = "word " * 19 + "- 1. # word " * 5
    assert not [line for line in wrapped(text).splitlines() if line[0] in "-1#"]


def test_a_span_of_code_is_not_broken() -> None:
    assert "`kbroker topics create hello`" in wrapped("word " * 17 + "`kbroker topics create hello` word\n")


def test_a_wrapped_page_is_wrapped_the_same_again() -> None:
    text = f"{LONG}\n\n- {LONG}\n\n      code\n"
    assert wrapped(wrapped(text)) == wrapped(text)
