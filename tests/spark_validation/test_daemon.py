"""The process that Spark forks its Python workers from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.session import ROOT, SETTINGS

OF_WORKERS = "spark.executorEnv."
BURN = """
import os, resource, time
from signal import SIG_IGN, SIGCHLD
from spark_validation.daemon import daemon

def ended():
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

before, until = ended(), time.monotonic() + 30
daemon.signal.signal(SIGCHLD, SIG_IGN)
if not os.fork():
    began = time.process_time()
    while time.process_time() < began + 0.3:
        pass
    os._exit(0)
while ended() < before + 0.1 and time.monotonic() < until:
    time.sleep(0.01)
print(ended() - before)
"""


@pytest.mark.spark
def test_workers_do_not_import_a_loadtest_py_of_the_folder_they_start_in(tmp_path: Path) -> None:
    (tmp_path / "loadtest.py").write_text("raise SystemExit('this is the file of a user')\n")
    own = {key.removeprefix(OF_WORKERS): value for key, value in SETTINGS.items() if OF_WORKERS in key}
    secret = {"PYTHON_WORKER_FACTORY_SECRET": "secret", "PYTHONPATH": str(ROOT)}
    daemon = subprocess.run(
        [sys.executable, "-m", SETTINGS["spark.python.daemon.module"], "pyspark.worker"],
        cwd=tmp_path,
        env=os.environ | secret | own,
        stdin=subprocess.DEVNULL,  # it ends with its input
        capture_output=True,
        timeout=300,
    )
    port = daemon.stdout
    assert (len(port), daemon.stderr.decode()) == (4, "")


@pytest.mark.spark
def test_the_cpu_of_workers_that_ended_is_counted() -> None:
    """pyspark's daemon asks the kernel to forget its workers when they end."""
    done = subprocess.run([sys.executable, "-c", BURN], capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    assert float(done.stdout) > 0.1
