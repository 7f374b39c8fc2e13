"""librdkafka's errors that another try does not change, told from those that it does."""

from kbroker.cli.refusals import CLOSED, HANDSHAKES, Refusals

NO_HANDSHAKE = (
    "ssl://h:1/bootstrap: SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to"
    " a PLAINTEXT broker listener? (after 2ms in state SSL_HANDSHAKE)"
)


def test_a_failed_check_of_the_certificate_is_final() -> None:
    refusals = Refusals()
    refusals.note("_SSL", "certificate verify failed (after 2ms in state SSL_HANDSHAKE)")
    assert refusals.reason == "no TLS connection: certificate verify failed"


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
