"""Every page is reached from the README, and no link between pages leads nowhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def links(page: Path) -> set[Path]:
    """Files of the project that a page leads to."""
    found = LINK.findall(page.read_text())
    return {
        (page.parent / one).resolve()
        for one in found
        if not one.startswith(("http://", "https://", "mailto:"))
    }


def test_the_readme_leads_to_every_page() -> None:
    reached = links(ROOT / "README.md")
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if page not in reached]


def test_no_link_leads_nowhere() -> None:
    assert not [f"{page.relative_to(ROOT)}: {to}" for page in PAGES for to in links(page) if not to.exists()]
