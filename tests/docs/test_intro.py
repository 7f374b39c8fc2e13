"""Each page begins with a sentence for its reader, before any heading, table or block."""

from pathlib import Path

import pytest

from docs.generated import ROOT

PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "adr" not in page.parts]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_its_purpose(page: Path) -> None:
    title, blank, first = page.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert not blank
    assert first[:1].isalpha() or first.startswith(("`", "["))
