"""The examples of docs/cli.md about files, backups, pages and tools run as they are written."""

from pathlib import Path

import pytest

from tests.cli.example_runs import LIMIT_S, run_examples


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
def test_every_example_of_files_runs(tmp_path: Path) -> None:
    run_examples("files", tmp_path)
