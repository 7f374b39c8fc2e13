"""Writes every generated page and file, or with --check lists those that are stale (exit code
1)."""

import importlib
import re
import sys

from docs.generated import GENERATED, ROOT
from docs.wrap import wrapped

_PAGE = re.compile(r"`kbroker docs ([\w/-]+)`")
"""The form in which messages and settings name a page."""


def text(function: str) -> str:
    """The result of the named `module:function`."""
    module, _, name = function.partition(":")
    return str(getattr(importlib.import_module(module), name)())


def expected(path: str) -> str:
    """The content that a generated file must have; the prose of pages is wrapped, and links to
    other pages."""
    given = text(GENERATED[path])
    return wrapped(_PAGE.sub(r"[\1](\1.md)", given), all_of_it=True) if path.endswith(".md") else given


def stale() -> list[str]:
    """The generated files whose content is not what their function gives now."""
    return [
        path
        for path in GENERATED
        if not (ROOT / path).exists() or (ROOT / path).read_text() != expected(path)
    ]


def main(arguments: list[str]) -> int:
    changed = stale()
    if "--check" in arguments:
        for path in changed:
            print(f"{path} is stale: make docs writes it")
        return 1 if changed else 0
    for path in changed:
        (ROOT / path).write_text(expected(path))
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
