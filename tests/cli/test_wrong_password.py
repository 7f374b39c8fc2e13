"""A wrong password is said as such at once, not as a time-out; the right one gets in."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.compat

PLAIN_ONLY = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    ),
}
PATIENCE_S = 3600
"""Longer than a test may take: an answer that comes at all did not wait for it."""


def client(folder: Path, password: str) -> Path:
    file = folder / f"{password}.properties"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{password}";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    return file


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("cluster", "features"), ("consume", "t"), ("produce", "t")]
)
def test_a_wrong_password_is_said_at_once(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path, command: tuple[str, ...]
) -> None:
    bootstrap = broker_factory(PLAIN_ONLY).bootstrap
    asked = (*command, "-b", bootstrap, "--timeout", PATIENCE_S, "--command-config")
    done = shell(*asked, client(tmp_path, "wrong"), code=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker: the broker refuses these credentials: ")
    assert "Invalid username or password" in line
    shell("topics", "list", "-b", bootstrap, "--command-config", client(tmp_path, "secret"))
