"""Tests in a browser are skipped without one, but not in CI."""

import os
import time
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


def test_a_browser_that_reads_nothing_does_not_hold_up_its_test() -> None:
    """A script is larger than the pipe to it."""
    to_read, to_write = os.pipe()
    os.set_blocking(to_write, False)
    browser = Browser.__new__(Browser)
    browser._write = to_write
    try:
        with pytest.raises(AssertionError, match="does not read"):
            browser._send(bytes(1 << 20), time.monotonic() + 0.2)
    finally:
        os.close(to_read)
        os.close(to_write)
