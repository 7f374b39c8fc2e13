"""A pytest plugin of the runs in the copy: ends a run when its time is over, and writes down what
failed first."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import Phase, settings

REPORT = "KBROKER_MUTANT_REPORT"
SECONDS = "KBROKER_MUTANT_SECONDS"


class _Run:
    """What one run of pytest has found."""

    def __init__(self) -> None:
        self.failed = ""
        self.timed_out = False
        self.tests = 0


_run = _Run()


def pytest_configure(config: pytest.Config) -> None:
    # The shortest example is of no use here.
    settings.register_profile("mutants", deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _run.tests += report.when == "call"
    if report.failed and not _run.failed:
        _run.failed = report.nodeid
        _run.timed_out = "Timeout" in str(report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed and not _run.failed:
        _run.failed = report.nodeid


def pytest_runtest_teardown(item: pytest.Item) -> None:
    if time.process_time() > float(os.environ.get(SECONDS, "1e9")):
        item.session.shouldstop = "the time of this mutant is over"


def pytest_sessionfinish() -> None:
    if path := os.environ.get(REPORT):
        found = {
            "failed": _run.failed,
            "timed_out": _run.timed_out,
            "tests": _run.tests,
            "cpu": time.process_time(),
        }
        Path(path).write_text(json.dumps(found))
