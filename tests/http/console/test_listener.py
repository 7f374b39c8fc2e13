"""Who gets into the console, by where the http process listens and which listeners the broker
has."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.http.console.listener import Access, ConsoleListener, choose, listener_of

PLAIN = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 9092)
TLS = Endpoint("SSL", SecurityProtocol.SSL, "10.0.0.5", 9093)
SASL = Endpoint("SASL", SecurityProtocol.SASL_PLAINTEXT, "0.0.0.0", 9094)
SCRAM = {"SASL": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")}
NO_SCRAM = {"SASL": ("PLAIN",)}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1"])
def test_on_loopback_anybody_gets_what_a_plain_listener_gives(host: str) -> None:
    assert choose(host, [SASL, TLS, PLAIN], SCRAM) == ConsoleListener(Access.OPEN, PLAIN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "", "localhost.example"])
def test_elsewhere_a_user_of_the_broker_has_to_log_in(host: str) -> None:
    assert choose(host, [PLAIN, SASL], SCRAM) == ConsoleListener(
        Access.LOGIN, SASL, ("SCRAM-SHA-512", "SCRAM-SHA-256")
    )


@pytest.mark.parametrize(("endpoints", "mechanisms"), [([PLAIN, TLS], SCRAM), ([PLAIN, SASL], NO_SCRAM)])
def test_elsewhere_without_scram_the_console_is_closed(
    endpoints: list[Endpoint], mechanisms: dict[str, tuple[str, ...]]
) -> None:
    listener = choose("0.0.0.0", endpoints, mechanisms)
    assert listener.access is Access.CLOSED
    assert "SCRAM" in listener.why


def test_on_loopback_a_broker_that_asks_everybody_for_a_login_asks_the_console_too() -> None:
    assert choose("127.0.0.1", [SASL], SCRAM).access is Access.LOGIN
    assert choose("127.0.0.1", [SASL], NO_SCRAM).access is Access.CLOSED
    assert choose("127.0.0.1", [TLS], SCRAM, ["SSL"]).access is Access.CLOSED
    assert choose("127.0.0.1", [TLS], SCRAM) == ConsoleListener(Access.OPEN, TLS)


def test_a_listener_has_mechanisms_of_its_own() -> None:
    lines = {
        "log.dirs": "/d",
        "listeners": "INNER://0.0.0.0:9092,OUTER://0.0.0.0:9093",
        "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
    }
    own = {"listener.name.inner.sasl.enabled.mechanisms": "PLAIN"}
    for scram in ("sasl.enabled.mechanisms", "listener.name.outer.sasl.enabled.mechanisms"):
        config, _ = BrokerConfig.load(lines | own | {scram: "SCRAM-SHA-256"})
        found = listener_of("10.0.0.5", config)
        assert (found.name, found.mechanisms) == ("OUTER", ("SCRAM-SHA-256",))


CERTIFICATES = "ssl.client.auth"


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, Access.LOGIN),
        ({CERTIFICATES: "required"}, Access.LOGIN),
        ({"listener.name.users.ssl.client.auth": "requested"}, Access.LOGIN),
        ({"listener.name.users.ssl.client.auth": "required"}, Access.CLOSED),
    ],
)
def test_a_listener_that_requires_certificates_is_not_one_for_the_console(
    settings: dict[str, str], access: Access
) -> None:
    """On SASL_SSL only the listener's own setting counts."""
    lines = {
        "log.dirs": "/d",
        "listeners": "USERS://0.0.0.0:9092",
        "listener.security.protocol.map": "USERS:SASL_SSL",
        "inter.broker.listener.name": "USERS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    found = listener_of("0.0.0.0", BrokerConfig.load(lines | settings)[0])
    assert found.access is access
    assert ("client certificates (ssl.client.auth): USERS" in found.why) is (access is Access.CLOSED)


def test_the_bound_port_of_the_requested_site_is_used() -> None:
    listener = ConsoleListener(Access.OPEN, PLAIN)
    assert listener.address({"PLAINTEXT": 19092, "PLAINTEXT@1": 19099}) == ("127.0.0.1", 19092)
    assert listener.address({"PLAINTEXT": 19092, "PLAINTEXT@1": 19099}, 1) == ("127.0.0.1", 19099)
    assert ConsoleListener(Access.OPEN, TLS).address({}) == ("10.0.0.5", 9093)
