"""The file that Locust loads uses the package, whatever the current folder holds."""

import os
import subprocess
from pathlib import Path

import pytest

from loadtest import locust_parameters
from loadtest.conductor import ROOT
from loadtest.interpreter import RUN_MODULE


@pytest.mark.slow
def test_a_users_file_is_not_imported_for_the_package(tmp_path: Path) -> None:
    (tmp_path / "loadtest.py").write_text("raise SystemExit('this is the file of a user')\n")
    environment = {name: value for name, value in os.environ.items() if name != locust_parameters.VARIABLE}
    done = subprocess.run(
        [*RUN_MODULE, "locust", "-f", str(ROOT / "loadtest" / "locustfile.py"), "--list"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert "it starts Locust with a run to play" in done.stderr
