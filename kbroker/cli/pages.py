"""`kbroker docs`: prints a page of the documentation. Messages name their page this way, because an
installed wheel has no docs/ folder."""

import difflib
from pathlib import Path
from typing import Annotated, Final

import typer

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import examples
from kbroker.cli.output import print_table

PACKAGE: Final = Path(__file__).parents[1]
PLACES: Final = (PACKAGE / "pages", PACKAGE.parent / "docs")
"""Folders of the pages: in a wheel (release/hatch_build.py), and in a source tree."""
_FORM: Final = "0000-template.md"
"""The template of a decision: no page for a reader."""
EXAMPLES = examples("kbroker docs", "kbroker docs backup", "kbroker docs lab/durable-acks")


def complete_page(incomplete: str) -> list[str]:
    """Names of pages with this prefix."""
    return [name for name in pages() if name.startswith(incomplete)]


def docs(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAGE]",
            help="Default: list the pages.",
            show_default=False,
            autocompletion=complete_page,
        ),
    ] = None,
) -> None:
    """Print a page of the documentation, as Markdown."""
    known = pages()
    if not known:
        raise CommandFailed("this installation has no pages: install kbroker again")
    if page is None:
        print_table(("PAGE", "TITLE"), [(name, _title(path)) for name, path in known.items()])
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f" did you mean {near[0]}?" if near else ""
        raise UsageFailed(f"no page {page!r};{hint} `kbroker docs` lists the pages")
    print(_without_comments(known[name].read_text(encoding="utf-8")), end="")


def pages() -> dict[str, Path]:
    """The file of each page by its name, such as `backup` or `lab/start`; those in folders last."""
    for folder in PLACES:
        if (folder / "index.md").is_file():
            names = {
                path.relative_to(folder).with_suffix("").as_posix(): path
                for path in folder.rglob("*.md")
                if path.name != _FORM
            }
            return {name: names[name] for name in sorted(names, key=lambda name: (name.count("/"), name))}
    return {}


def _title(path: Path) -> str:
    with open(path, encoding="utf-8") as opened:
        return next((line[2:].strip() for line in opened if line.startswith("# ")), "")


def _without_comments(text: str) -> str:
    """The page without its comments, which say how a test runs a block."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.strip().startswith("<!--"))
