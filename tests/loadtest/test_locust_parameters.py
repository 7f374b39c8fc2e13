"""Parameters for Locust survive the way through their file."""

from pathlib import Path

import pytest

from loadtest.clock import boot_id
from loadtest.locust_parameters import VARIABLE, LocustParameters, folder, load, save


def test_parameters_come_back(tmp_path: Path) -> None:
    save(tmp_path, LocustParameters(5, 70, "b"))
    assert load(tmp_path) == LocustParameters(5, 70, "b")


def test_the_clock_is_that_of_the_run() -> None:
    assert LocustParameters(5, 70, boot_id()).clock().offset_ns == 70


def test_the_folder_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/runs/1")
    assert folder() == Path("/runs/1")
    for empty in (True, False):
        if empty:
            monkeypatch.setenv(VARIABLE, "")
        else:
            monkeypatch.delenv(VARIABLE)
        with pytest.raises(SystemExit, match="kbroker loadtest run"):
            folder()
