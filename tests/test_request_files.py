"""The way of a request stays short: how many files of kbroker/ it runs through."""

from pathlib import Path

import pytest

from tests.request_files import counted

MAX_FILES = {"produce": 17, "fetch": 12, "commit": 23}
"""Fewer is better; ADR 0026 compares these numbers with their goals."""


@pytest.mark.slow
def test_requests_run_through_no_more_files_than_they_did(tmp_path: Path) -> None:
    found = counted(tmp_path)
    assert found.keys() == MAX_FILES.keys()
    more = {name: files for name, files in found.items() if len(files) > MAX_FILES[name]}
    assert not more, "give a step to a file that the request already runs through"
