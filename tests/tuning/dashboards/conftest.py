"""Fixtures of the tests of rules and dashboards."""

import os
import shutil

import pytest


@pytest.fixture
def promtool() -> str:
    """Prometheus' checker of rules."""
    found = shutil.which("promtool")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is missing: apt-get install prometheus")
        pytest.skip("promtool is missing: apt-get install prometheus")
    return found
