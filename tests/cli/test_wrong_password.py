"""A wrong password is said as such at once, not as a time-out; the right one gets in."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.plain_login import PLAIN_ONLY, client
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.compat

PATIENCE_S = 3600
"""Longer than a test may take: an answer that comes at all did not wait for it."""


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("cluster", "features"), ("consume", "t"), ("produce", "t")]
)
def test_a_wrong_password_is_reported_at_once(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path, command: tuple[str, ...]
) -> None:
    bootstrap = broker_factory(PLAIN_ONLY).bootstrap
    requested = (*command, "-b", bootstrap, "--timeout", PATIENCE_S, "--command-config")
    done = shell(*requested, client(tmp_path, "wrong"), code=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker: the broker refuses these credentials: ")
    assert "Invalid username or password" in line
    shell("topics", "list", "-b", bootstrap, "--command-config", client(tmp_path, "secret"))
