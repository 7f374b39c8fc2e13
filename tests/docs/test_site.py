"""The site of the docs builds without a warning, fetches nothing, and a link that leads nowhere
ends its build."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="make venv-docs brings it")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?(https?:)?//[^>]*>")


def build(project: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "-f", str(project / "mkdocs.yml"), "-d", str(site)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A project whose pages a test may break."""
    project = tmp_path / "project"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if (ROOT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, project / name)
    return project


def test_every_page_is_on_the_site(site: Path) -> None:
    expected = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")
    }
    assert {"CONTRIBUTING.html", "SECURITY.html", *expected} <= {
        str(p.relative_to(site)) for p in site.rglob("*.html")
    }


def test_no_page_fetches_from_elsewhere(site: Path) -> None:
    assert not [
        f"{page.relative_to(site)}: {found[0]}"
        for page in site.rglob("*.html")
        if "reports" not in page.parts
        for found in FETCHED.finditer(page.read_text())
    ]
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert not re.search(r"url\(\"?https?:|@import", styles)


@pytest.mark.parametrize("link", ["[x](nowhere.md)", "[x](config.md#nowhere)", "[x](../kbroker/nowhere.py)"])
def test_a_link_that_leads_nowhere_ends_the_build(copy: Path, tmp_path: Path, link: str) -> None:
    page = copy / "docs" / "why.md"
    page.write_text(f"{page.read_text()}\n{link}\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr + done.stdout
