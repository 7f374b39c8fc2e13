"""The examples of docs/cli.md that need several replica sites run as they are written."""

from pathlib import Path

import pytest

from tests.cli.example_runs import LIMIT_S, run_examples


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
def test_every_example_of_sites_runs(tmp_path: Path) -> None:
    run_examples("sites", tmp_path)
