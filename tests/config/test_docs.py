"""docs/config.md is what the tables say."""

from pathlib import Path

import pytest

from kbroker.config import docs
from kbroker.config.broker import BROKER
from kbroker.config.topic import TOPIC


def test_the_page_is_fresh() -> None:
    assert docs.main(["--check"]) == 0


def test_every_public_setting_is_on_the_page() -> None:
    text = docs.page()
    for table in (BROKER, TOPIC):
        for name, row in table.items():
            assert row.internal or f"`{name}`" in text


def test_a_stale_page_is_reported_and_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "PAGE", tmp_path / "docs" / "config.md")
    assert docs.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    assert docs.main(["--wrong"]) == 2
