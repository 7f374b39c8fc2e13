"""Backups are begun until as many were killed before their end as the test needs."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import backup_load
from tests.crash.backup_load import kill_at_random


def ends(monkeypatch: pytest.MonkeyPatch, *killed: bool) -> Iterator[bool]:
    """Backups that were killed or not, in this order."""
    left = iter(killed)
    monkeypatch.setattr(backup_load, "killed_after", lambda *_: next(left))
    return left


def test_a_backup_that_ends_is_no_kill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = ends(monkeypatch, False, True, False, False, True, True, True)
    kill_at_random("", tmp_path, random.Random(1), 1.0, 3)
    assert list(left) == [True]
    assert "3 of 6 backups killed" in capsys.readouterr().out


def test_a_load_whose_backups_are_never_killed_ends_the_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, True, *[False] * 19)
    with pytest.raises(AssertionError, match="only 1 of 20 backups"):
        kill_at_random("", tmp_path, random.Random(1), 1.0, 2)
