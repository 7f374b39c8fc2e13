"""The console's SCRAM client against the broker's SCRAM server."""

import pytest

from kbroker.http.console.scram_client import HASHES, CredentialChanged, ScramClient, ScramFailed
from kbroker.net.security.scram import ScramError, ScramServer
from tests.http.console.scram_logins import credential, log_in


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_a_user_logs_in_again_without_his_password(mechanism: str) -> None:
    client = ScramClient(mechanism, "ann=e,x", "secret")
    log_in(client, credential(mechanism, "secret"))
    assert "secret" not in [getattr(client, name) for name in vars(client)]
    log_in(client, credential(mechanism, "secret"))


def test_a_wrong_password_is_refused() -> None:
    with pytest.raises(ScramError):
        log_in(ScramClient("SCRAM-SHA-256", "anne", "wrong"), credential("SCRAM-SHA-256", "secret"))


def test_a_changed_credential_ends_what_was_remembered() -> None:
    client = ScramClient("SCRAM-SHA-512", "anne", "secret")
    log_in(client, credential("SCRAM-SHA-512", "secret"))
    with pytest.raises(CredentialChanged):
        log_in(client, credential("SCRAM-SHA-512", "secret", b"another salt 123"))


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"r=abc,s=AAAA,i=4096",
        b"r={n}x,s=!!,i=4096",
        b"r={n}x,s=AAAA,i=1",
        b"r={n}x,s=AAAA,i=99999999999",
    ],
)
def test_a_server_that_does_not_speak_scram_is_not_believed(challenge: bytes) -> None:
    exchange = ScramClient("SCRAM-SHA-256", "anne", "secret").exchange()
    nonce = exchange.first().rpartition(b"r=")[2]
    with pytest.raises(ScramFailed):
        exchange.final(challenge.replace(b"{n}", nonce))


def test_a_server_that_does_not_know_the_user_is_not_believed() -> None:
    client = ScramClient("SCRAM-SHA-256", "anne", "secret")
    server, exchange = ScramServer(client.mechanism), client.exchange()
    server.first(exchange.first())
    exchange.final(server.challenge(credential("SCRAM-SHA-256", "secret")))
    with pytest.raises(ScramFailed):
        exchange.verify(b"v=AAAA")


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_a_credential_fits_while_a_login_by_it_would_succeed(mechanism: str) -> None:
    client = ScramClient(mechanism, "anne", "secret")
    stored = credential(mechanism, "secret")
    log_in(client, stored)
    assert client.fits(stored)
    assert not client.fits(credential(mechanism, "secret", b"another salt 123"))
    assert not client.fits(credential(mechanism, "changed")), "with the old salt"
    assert not client.fits(stored._replace(iterations=8192))
