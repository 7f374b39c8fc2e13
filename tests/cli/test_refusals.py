"""Errors of librdkafka that a retry does not change, and those that it does."""

import pytest

from kbroker.cli.refusals import CLOSED, HANDSHAKES, Refusals

NO_HANDSHAKE = (
    "ssl://h:1/bootstrap: SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to"
    " a PLAINTEXT broker listener? (after 2ms in state SSL_HANDSHAKE)"
)


def test_a_failed_check_of_the_certificate_is_final() -> None:
    refusals = Refusals()
    refusals.note(
        "_SSL",
        "ssl://h:1/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker"
        " certificate could not be verified, verify that ssl.ca.location is correctly configured or root CA"
        " certificates are installed (install ca-certificates package) (after 2ms in state SSL_HANDSHAKE)",
    )
    assert refusals.reason == (
        "no TLS connection: ssl://h:1/bootstrap: certificate verify failed: the broker's certificate must be of an"
        " authority in ssl.truststore.location, and have the name or address that -b gives"
    )
    refusals.note("_SSL", "ssl://h:1/bootstrap: another reason (after 2ms in state SSL_HANDSHAKE)")
    assert refusals.reason == "no TLS connection: ssl://h:1/bootstrap: another reason"


ALERT = (
    "ssl://h:1/bootstrap: Receive failed: error:0A000{code}:SSL routines::{said}: SSL alert number {number}"
    " (after 0ms in state APIVERSION_QUERY)"
)


def test_a_listener_that_wants_a_certificate_says_which_setting() -> None:
    refusals = Refusals()
    reported = "tlsv13 alert certificate required"
    refusals.note("_TRANSPORT", ALERT.format(code="45C", said=reported, number=116))
    assert refusals.reason == (
        "the listener refuses the TLS connection: certificate required: "
        "set ssl.keystore.location and ssl.keystore.type"
    )


def test_a_certificate_of_an_unknown_authority_is_final() -> None:
    refusals = Refusals()
    refusals.note("_TRANSPORT", ALERT.format(code="418", said="tlsv1 alert unknown ca", number=48))
    assert refusals.reason == "the listener refuses the TLS connection: unknown ca"


def test_a_listener_without_tls_ends_every_handshake() -> None:
    refusals = Refusals()
    for _ in range(HANDSHAKES - 1):
        refusals.note("_TRANSPORT", NO_HANDSHAKE)
    assert refusals.reason == ""
    refusals.note("_TRANSPORT", NO_HANDSHAKE)
    assert "no TLS handshake" in refusals.reason


def test_a_listener_that_wants_a_login_closes_silently() -> None:
    refusals = Refusals()
    for _ in range(CLOSED):
        assert refusals.reason == ""
        refusals.note("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    assert "SASL_SSL" in refusals.reason


def test_a_broker_that_is_away_is_no_refusal() -> None:
    refusals = Refusals()
    for _ in range(CLOSED * 2):
        refusals.note("_TRANSPORT", "Connect to ipv4#h:1 failed: Connection refused")
        refusals.note("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    assert refusals.reason == ""


@pytest.mark.parametrize(
    ("mechanisms", "reason"),
    [
        ("", "the listener takes no login: set security.protocol without SASL"),
        (
            "SCRAM-SHA-512,SCRAM-SHA-256",
            "the listener does not take sasl.mechanism=PLAIN: it takes SCRAM-SHA-512,SCRAM-SHA-256",
        ),
    ],
)
def test_a_mechanism_that_the_listener_does_not_take_is_no_wrong_password(
    mechanisms: str, reason: str
) -> None:
    refusals = Refusals()
    refusals.note(
        "_AUTHENTICATION",
        "sasl_plaintext://h:1/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Request not valid in "
        f"current SASL state: broker's supported mechanisms: {mechanisms} (after 0ms in state AUTH_HANDSHAKE)",
    )
    assert (refusals.reason, refusals.of_credentials) == (reason, False)


def test_a_wrong_password_is_a_refusal_of_the_credentials() -> None:
    refusals = Refusals()
    refusals.note("_AUTHENTICATION", "SASL authentication error: Authentication failed")
    assert refusals.of_credentials
