"""The examples of docs/cli.md and docs/loadtest.md that load a broker, judge a load or measure this
host run as they are written."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.example_runs import run_examples
from tests.docs.blocks import ROOT

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

CONNECT = """from spark_validation.session import spark_session
spark_session(connector=True, small=True).stop()"""


@pytest.fixture
def _connector() -> None:
    """Spark's Kafka connector, which the judge cannot fetch from the network of the examples."""
    subprocess.run([sys.executable, "-c", CONNECT], cwd=ROOT, check=True, timeout=600)


@pytest.mark.usefixtures("_connector")
@pytest.mark.compat
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(3000)
def test_every_example_of_loads_runs(tmp_path: Path) -> None:
    run_examples("loads", tmp_path)
