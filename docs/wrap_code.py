"""Wraps docstrings and comments at 100 columns: `python -m docs.wrap_code` rewrites, --check lists
them.

Only paragraphs with a line that is too long are wrapped. Tables, indented blocks, examples and
comments beside code stay as they are. What a module does is compared before and after: only white
space in docstrings may differ.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generated import ROOT
from docs.wrap import COLUMNS, fill

_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_KEPT = re.compile(r"[|>`]|={3,}|-{3,}|\+[-=+]+\+|#{2,}")
_PRAGMA = re.compile(r"#(?:!|:| ?(?:noqa|type:|fmt:|ruff:|pragma|mypy:))")
_COLUMNS_OF_WORDS = re.compile(r"\S {2,}\S")  # two blanks within a line line something up


def modules() -> list[Path]:
    """Every Python file of the repository, without corpora."""
    names = subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).split()
    return [ROOT / name for name in names if "/data/" not in name and (ROOT / name).exists()]


def wrapped(source: str) -> str:
    """The module with its long paragraphs wrapped. Raises ValueError when that would change what it
    does."""
    lines = source.splitlines()
    for first, last in sorted(_docstrings(ast.parse(source)), reverse=True):
        lines[first:last] = _docstring(lines[first:last])
    if any(len(line) > COLUMNS and line.lstrip().startswith("# ") for line in lines):
        lines = _comments(lines, _inside_strings("\n".join(lines)))
    text = "\n".join(lines) + "\n"
    if text.strip() != source.strip() and _meaning(text) != _meaning(source):
        raise ValueError("wrapping would change the module")
    return text


def too_long(source: str) -> list[str]:
    """Lines that `wrapped` would break."""
    kept = set(wrapped(source).splitlines())
    return [line for line in source.splitlines() if len(line) > COLUMNS and line not in kept]


def _documented(tree: ast.Module) -> Iterator[ast.Constant]:
    """Strings that are statements: docstrings, also those of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Ranges of lines (from 0, end excluded)."""
    for value in _documented(tree):
        assert value.end_lineno is not None
        yield value.lineno - 1, value.end_lineno


def _meaning(source: str) -> str:
    tree = ast.parse(source)
    for value in _documented(tree):
        value.value = " ".join(str(value.value).split())
    return ast.dump(tree)


def _docstring(lines: list[str]) -> list[str]:
    """The lines of one docstring, wrapped. Its quotes stay where they are: beside the text or
    alone."""
    if '"""' not in lines[0] or all(len(line) <= COLUMNS for line in lines):
        return lines
    wrapped: list[str] = []
    for block in _paragraphs(lines):
        wrapped += _fitted(block)
    return wrapped


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Lines that flow together: at one indentation, up to an empty line, a list item or the closing
    quotes."""
    block: list[str] = []
    for line in lines:
        text = line.strip()
        starts = not text or text == '"""' or bool(_ITEM.match(text)) or bool(_KEPT.match(text))
        if block and (starts or _margin(line) != _continuation(block)):
            yield block
            block = []
        block.append(line)
        if not text or text == '"""' or _KEPT.match(text):
            yield block
            block = []
    if block:
        yield block


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continuation(block: list[str]) -> int:
    """Columns at which the next line of a paragraph stands."""
    if len(block) > 1:
        return _margin(block[-1])
    item = _ITEM.match(block[0].strip())
    return _margin(block[0]) + (item.end() if item else 0)


def _fitted(block: list[str]) -> list[str]:
    text = block[0].strip()
    if (
        all(len(line) <= COLUMNS for line in block)
        or _KEPT.match(text)
        or any(_COLUMNS_OF_WORDS.search(line.strip()) for line in block)
    ):
        return block
    item = _ITEM.match(text)
    head = block[0][: _margin(block[0])] + (item[0] if item else "")
    words = " ".join([block[0][len(head) :], *(line.strip() for line in block[1:])])
    return fill(words, head, " " * len(head))


def _inside_strings(source: str) -> set[int]:
    """Numbers (from 0) of lines inside strings: what looks like a comment there is none."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            inside.update(range(node.lineno - 1, node.end_lineno) if node.end_lineno > node.lineno else ())
    return inside


def _comments(lines: list[str], inside: set[int]) -> list[str]:
    """The lines, with blocks of whole-line comments wrapped."""
    wrapped: list[str] = []
    block: list[str] = []
    for number, line in enumerate([*lines, ""]):
        text = line.strip()
        prose = text.startswith("# ") and number not in inside and not _PRAGMA.match(text)
        starts = not prose or bool(_ITEM.match(text[2:])) or bool(_KEPT.match(text[2:]))
        if block and (starts or _margin(line) != _margin(block[0])):
            wrapped += _comment(block)
            block = []
        if prose and not _KEPT.match(text[2:]):
            block.append(line)
        else:
            wrapped.append(line)
    return wrapped[:-1]


def _comment(block: list[str]) -> list[str]:
    if all(len(line) <= COLUMNS for line in block) or any(
        _COLUMNS_OF_WORDS.search(line.strip()) for line in block
    ):
        return block
    head = block[0][: _margin(block[0])] + "# "
    return fill(" ".join(line.strip()[2:] for line in block), head, head)


def main(arguments: list[str]) -> int:
    code = 0
    for module in modules():
        source = module.read_text()
        if not any(len(line) > COLUMNS for line in source.splitlines()):
            continue
        if "--check" in arguments:
            if long := too_long(source):
                code = 1
                print(f"{module.relative_to(ROOT)}: {len(long)} lines of prose over {COLUMNS} columns")
        elif (text := wrapped(source)) != source:
            module.write_text(text)
            print(f"wrapped {module.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
