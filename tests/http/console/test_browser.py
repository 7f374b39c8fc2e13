"""Tests in a browser are skipped without one, but not in CI."""

from pathlib import Path

import pytest

from tests.http.console.browser import Browser, may_skip


def test_a_missing_chromium_fails_in_ci_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("CI", raising=False)
    assert may_skip()
    monkeypatch.setenv("CI", "true")
    assert not may_skip()
    with pytest.raises(AssertionError, match="apt-get install chromium"):
        Browser(tmp_path)
