"""Files and folders that pages name exist: `net/pump_kernel.py`, `cleaner/`, `plan.py`."""

import re
from pathlib import Path

import pytest

from docs.generated import ROOT
from docs.wrap import pages

NAMED = re.compile(r"`([\w./-]+(?:\.py|/))`")
BRACES = re.compile(r"`([\w./-]*)\{([\w,]+)\}([\w./-]*(?:\.py|/))`")
HISTORY = ("docs/adr/", "CHANGELOG.md")
"""Pages about the past may name files that are gone."""
OUTPUT = {"dist/"}


def missing(page: Path, known: set[str]) -> list[str]:
    """Names in a page that are the end of no known path."""
    text = page.read_text()
    names = NAMED.findall(text)
    for head, middle, tail in BRACES.findall(text):
        names += [f"{head}{one}{tail}" for one in middle.split(",")]
    return sorted({name for name in names if f"/{name}" not in known} - OUTPUT)


def endings(paths: list[str]) -> set[str]:
    """All that a path may be called: `/worker.py`, `/io/worker.py`, and so on."""
    found: set[str] = set()
    for path in paths:
        parts = path.rstrip("/").split("/")
        end = "/" if path.endswith("/") else ""
        found.update(f"/{'/'.join(parts[n:])}{end}" for n in range(len(parts)))
    return found


@pytest.fixture(scope="module")
def known() -> set[str]:
    tops = (
        "kbroker",
        "bench",
        "docs",
        "loadtest",
        "release",
        "requirements",
        "spark_validation",
        "tests",
        "tuning",
    )
    files = [path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*") if path.is_file()]
    folders = {f"{folder}/" for file in files for folder in file.parents}
    return endings([*map(str, files), *folders])


def test_every_file_that_a_page_names_exists(known: set[str]) -> None:
    found = {
        name: gone
        for page in pages()
        if not (name := str(page.relative_to(ROOT))).startswith(HISTORY) and (gone := missing(page, known))
    }
    assert not found


def test_a_file_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "paths.md"
    page.write_text("`io/worker.py`, `worker.py`, `log/{walk,gone}.py`, `cleaner/`, `lost/`, `io/gone.py`")
    known = endings(["kbroker/io/worker.py", "kbroker/log/walk.py", "kbroker/cleaner/"])
    assert missing(page, known) == ["io/gone.py", "log/gone.py", "lost/"]
