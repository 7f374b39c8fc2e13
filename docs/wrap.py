"""Wraps the prose of pages at 100 columns: `python -m docs.wrap` rewrites them, --check lists what
is too long.

Tables, code, headings and comments stay as they are. A paragraph or list item is wrapped only
when one of its lines is too long, so a change of a word changes few lines.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generated import GENERATED, ROOT

COLUMNS = 100

_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])(\s+)")
_KEPT = re.compile(r"\s*(\||#{1,6} |```|~~~|<)|\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_SPAN = re.compile(r"(?<!`)(`{1,2})[^`]{1,90}\1(?!`)")
_LOOKS_LIKE_A_MARK = re.compile(r"([-*+=]+|\d+[.)])$|[>|#]|<!--")
_GLUE = "\0"


def pages() -> list[Path]:
    """Pages that are written by hand, not generated."""
    names = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    found = [*names, *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
    return sorted(page for page in found if str(page.relative_to(ROOT)) not in GENERATED)


def wrapped(text: str, all_of_it: bool = False) -> str:
    """The page with its long paragraphs wrapped, or with all of them."""
    return "".join(
        f"{line}\n"
        for kept, block in _blocks(text)
        for line in (block if kept else _fitted(block, all_of_it))
    )


def too_long(text: str) -> list[str]:
    """Lines of prose beyond the limit that could be wrapped."""
    fitted = wrapped(text).splitlines()
    return [line for line in text.splitlines() if len(line) > COLUMNS and line not in fitted]


def _blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Paragraphs and list items as lists of lines; every line that must be kept as it is, alone."""
    fence = ""
    block: list[str] = []
    in_list = False
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence or mark:
            fence = "" if fence and mark and mark[1] == fence else fence or (mark[1] if mark else "")
            kept = True
        else:
            kept = bool(_KEPT.match(line)) or (not block and not in_list and line.startswith("    "))
        item = _ITEM.match(line)
        if block and (kept or item):
            yield False, block
            block = []
        if kept:
            in_list = in_list and (not line or line.startswith(" "))
            yield True, [line]
        else:
            in_list = in_list or bool(item)
            if not item and not line.startswith(" ") and not block:
                in_list = False
            block.append(line)
    if block:
        yield False, block


def _fitted(block: list[str], always: bool) -> list[str]:
    if not always and all(len(line) <= COLUMNS for line in block):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else block[0][: len(block[0]) - len(block[0].lstrip())]
    text = " ".join([block[0][len(first) :], *(line.strip() for line in block[1:])])
    return fill(text, first, " " * len(first))


def fill(text: str, first: str, rest: str) -> list[str]:
    """Lines of at most COLUMNS columns. first, rest: what the first and each other line begin with.

    Short spans of code stay in one piece, and no line begins with what looks like a mark."""
    text = _SPAN.sub(lambda span: span[0].replace(" ", _GLUE), text)
    words: list[str] = []
    for word in text.split():
        if words and _LOOKS_LIKE_A_MARK.match(word):
            words[-1] += _GLUE + word
        else:
            words.append(word)
    lines = [first + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= COLUMNS:
            lines[-1] += " " + word
        else:
            lines.append(rest + word)
    return [line.replace(_GLUE, " ") for line in lines]


def main(arguments: list[str]) -> int:
    long = {page: lines for page in pages() if (lines := too_long(page.read_text()))}
    for page, lines in long.items():
        name = page.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name}: {len(lines)} lines of prose over {COLUMNS} columns: make fmt wraps them")
        else:
            page.write_text(wrapped(page.read_text()))
            print(f"wrapped {name}")
    return 1 if long and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
