"""A generated page that is stale or missing is reported, and rewritten."""

from pathlib import Path

import pytest

from docs import generate


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one generated page that is not written yet."""
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "GENERATED", {"settings.md": "kbroker.config.docs:page"})
    return tmp_path / "settings.md"


def test_a_missing_page_is_reported_and_written(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 1
    assert "settings.md is stale" in capsys.readouterr().out
    assert generate.main([]) == 0
    assert page.read_text().startswith("# Settings")
    assert generate.main(["--check"]) == 0


def test_a_changed_page_is_reported(page: Path) -> None:
    generate.main([])
    page.write_text(page.read_text() + "by hand\n")
    assert generate.main(["--check"]) == 1


def test_the_prose_of_a_generated_page_is_wrapped(page: Path) -> None:
    generate.main([])
    prose = [line for line in page.read_text().splitlines() if not line.startswith(("|", "#", "    "))]
    assert max(map(len, prose)) <= 100
