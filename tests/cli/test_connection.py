"""A client that speaks another protocol than the listener learns which one at once."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import Unreachable
from tests.certificates import certificate
from tests.cli.client_settings import SECURE, settings
from tests.cli.conftest import Shell
from tests.cli.console_address import console
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

PATIENCE_S = 3600
"""Longer than a test may take: an answer that comes at all did not wait for it."""


@pytest.mark.parametrize(
    ("listener", "client", "said"),
    [
        ("SSL", "PLAINTEXT", "as a TLS listener does: set security.protocol=SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "set security.protocol=SASL_PLAINTEXT"),
        ("SASL_SSL", "SSL", "set security.protocol=SASL_SSL"),
        ("PLAINTEXT", "SSL", "set security.protocol without SSL"),
        ("SSL", "SSL of another authority", "certificate verify failed"),
    ],
)
def test_the_wrong_protocol_is_reported_at_once(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path, listener: str, client: str, said: str
) -> None:
    bootstrap = broker_factory(settings(tmp_path, listener)).bootstrap
    certificate(tmp_path, "other", "/CN=other")
    trusted = tmp_path / ("other.crt" if "other" in client else "broker.crt")
    file = tmp_path / "client.properties"
    file.write_text(SECURE.format(trusted=trusted) if "SSL" in client else "")
    requested = ("topics", "list", "-b", bootstrap, "--timeout", PATIENCE_S, "--command-config", file)
    done = shell(*requested, code=3 if client == "PLAINTEXT" else 1)
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_login_without_tls_does_not_wait_longer_than_its_timeout(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """A TLS listener does not answer it, and the client library would try again and again."""
    bootstrap = broker_factory(settings(tmp_path, "SSL")).bootstrap
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n"
    )
    done = shell("topics", "list", "-b", bootstrap, "--timeout", 1, "--command-config", file, code=3)
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"no answer of {bootstrap}: is SASL_PLAINTEXT the protocol of this listener?")


@pytest.mark.parametrize("command", [("topics", "list"), ("cluster", "features")])  # by both libraries
def test_an_address_that_is_no_listener_is_followed_by_the_next(
    shell: Shell, broker: KBroker, command: tuple[str, ...]
) -> None:
    other = console(broker).removeprefix("http://").rstrip("/")
    shell(*command, "-b", f"{other},{broker.bootstrap}", "--timeout", 120)
    alone = shell(*command, "-b", f"{other},127.0.0.1:1", "--timeout", 120, code=3).stderr
    assert f"kbroker: {other} speaks HTTP" in alone
    assert "cannot connect to 127.0.0.1:1: Connection refused" in alone


RESOLVE = "Failed to resolve 'lost:9092': Name or service not known"
CONNECT = "Connect to ipv4#10.0.0.7:1 failed: Connection refused"
BEHIND = "late; no connection to {}, which the broker advertises: {}"


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        (f"lost:9092/1: {RESOLVE} (after 3ms in state CONNECT)", BEHIND.format("lost:9092", RESOLVE)),
        (f"h:1/7: {CONNECT} (after 0ms in state CONNECT, 3 identical)", BEHIND.format("h:1", CONNECT)),
        (f"h:1/bootstrap: {CONNECT}", "late"),
    ],
)
def test_an_advertised_address_that_cannot_be_reached_is_the_reason(noted: str, said: str) -> None:
    connection = Connection("127.0.0.1:1", {}, 1.0)
    connection._note_error(KafkaError(KafkaError._RESOLVE, noted))
    failure = Unreachable("late")
    connection.add_reason(failure)
    assert failure.message == said


@pytest.mark.compat
def test_a_command_names_the_advertised_address_that_it_cannot_reach(
    shell: Shell, broker_factory: BrokerFactory
) -> None:
    node = broker_factory({"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"})
    at = ("-b", node.bootstrap)
    assert shell("topics", "list", *at).lines
    for line in (("topics", "create", "t"), ("produce", "t")):
        done = shell(*line, *at, "--timeout", "3", stdin=b"x\n", code=ExitCode.UNREACHABLE)
        (reason,) = done.stderr.splitlines()
        assert "no connection to no-such-host.invalid:9092, which the broker advertises: Failed" in reason
