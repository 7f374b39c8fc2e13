"""SCRAM, the server's side: the exchange of RFC 7677, and everything that must not get in."""

import base64
import time
from collections.abc import Callable

import pytest

from kbroker.control.decoys import NUMBER_LENGTHS, Decoys
from kbroker.ipc.messages import ScramCredential
from kbroker.net.security.scram import ScramError, ScramServer
from tests.callbacks import slowness
from tests.net.security.scram_client import PASSWORD, SALT, client_final, credential


@pytest.mark.parametrize(
    ("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
@pytest.mark.parametrize("bare", ["n=user,r=rOprNGfwEbeRWgbNEkqO", "n=us=2Cer,r=x,ext=1"])
def test_who_knows_the_password_gets_in_and_is_shown_that_we_know_it(
    mechanism: str, hash_name: str, bare: str
) -> None:
    server = ScramServer(mechanism)
    assert server.first(f"n,,{bare}".encode()) == bare[2:].partition(",")[0].replace("=2C", ",")
    message, expected = client_final(server.challenge(credential(hash_name)), PASSWORD, hash_name, bare)
    assert server.final(message) == expected


def test_the_signature_is_that_of_the_rfc() -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    server._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server.challenge(credential()) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n=user,r=x",
        b"y,,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"\xff",
    ],
)
def test_first_messages_that_are_none_are_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        ScramServer("SCRAM-SHA-256").first(message)


def test_a_wrong_password_an_unknown_user_and_few_iterations_do_not_get_in() -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=x")
    message, _ = client_final(server.challenge(credential()), b"pen", "sha256", "n=user,r=x")
    with pytest.raises(ScramError):
        server.final(message)
    other = ScramServer("SCRAM-SHA-256")
    other.first(b"n,,n=user,r=x")
    with pytest.raises(ScramError):
        other.challenge(credential(iterations=4095))


def test_an_unknown_user_is_challenged_as_a_known_one_and_refused_with_the_same_text() -> None:
    texts, salts = set(), []
    decoys = Decoys(b"secret", {})
    unknown = [(name, decoys.user(name, 1)) for name in ("nobody", "nobody", "nothing")]
    for user, found in (("user", credential()), *unknown):
        server = ScramServer("SCRAM-SHA-256")
        server.first(f"n,,n={user},r=x".encode())
        challenge = server.challenge(found)
        salts.append(challenge.partition(b",s=")[2].partition(b",i=")[0])
        assert challenge.endswith(b",i=4096")
        message, _ = client_final(challenge, b"pen", "sha256", f"n={user},r=x")
        with pytest.raises(ScramError) as refused:
            server.final(message)
        texts.add(str(refused.value))
    assert len(texts) == 1
    assert salts[1] == salts[2] != salts[3]
    assert len(base64.b64decode(salts[1])) in NUMBER_LENGTHS


def test_the_proof_of_another_exchange_does_not_get_in() -> None:
    first, second = ScramServer("SCRAM-SHA-256"), ScramServer("SCRAM-SHA-256")
    for server in (first, second):
        server.first(b"n,,n=user,r=x")
    message, _ = client_final(first.challenge(credential()), PASSWORD, "sha256", "n=user,r=x")
    second.challenge(credential())
    with pytest.raises(ScramError):
        second.final(message)


def test_a_final_message_without_a_challenge_does_not_get_in() -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=x")
    with pytest.raises(ScramError):
        server.final(b"c=biws,r=x,p=AAAA")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_proof_costs_no_more_for_many_iterations(mechanism: str) -> None:
    """Only clients derive keys, so wrong logins do not hold up the loop of their network
    process."""
    proof = base64.b64encode(bytes(32 if mechanism.endswith("256") else 64)).decode()
    shortest_ns = []
    for _ in range(5):
        server = ScramServer(mechanism)
        server.first(b"n,,n=user,r=x")
        challenge = server.challenge(ScramCredential(SALT, bytes(64), bytes(64), 1 << 30))
        nonce = challenge.decode().split(",")[0]
        began_ns = time.thread_time_ns()
        with pytest.raises(ScramError, match="credentials"):
            server.final(f"c=biws,{nonce},p={proof}".encode())
        shortest_ns.append(time.thread_time_ns() - began_ns)
    assert min(shortest_ns) < 2_000_000 * slowness()


def test_a_name_has_its_commas_and_signs_back() -> None:
    assert ScramServer("SCRAM-SHA-256").first(b"n,,n=a=2Cb=3Dc,r=x") == "a,b=c"


@pytest.mark.parametrize(("authzid", "allowed"), [("user", True), ("other", False)])
def test_a_client_may_only_be_the_user_whose_password_it_knows(authzid: str, allowed: bool) -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(f"n,a={authzid},n=user,r=x".encode())
    if allowed:
        assert server.challenge(credential())
        return
    with pytest.raises(ScramError, match="different from username") as refused:
        server.challenge(credential())
    assert refused.value.is_public


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda message: message.replace(b"r=x", b"r=y"), "nonce"),
        (lambda message: message[: message.index(b",p=")] + b",p=AAAA", "credentials"),
        (lambda message: message[: message.index(b",p=")] + b",p=A===", "message format"),
        (lambda message: message[: message.index(b",p=")], "message format"),
    ],
)
def test_a_changed_last_message_is_refused(change: Callable[[bytes], bytes], text: str) -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=x")
    message, _ = client_final(server.challenge(credential()), PASSWORD, "sha256", "n=user,r=x")
    with pytest.raises(ScramError, match=text) as refused:
        server.final(change(message))
    assert not refused.value.is_public


def test_a_proof_is_accepted_once() -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=x")
    message, expected = client_final(server.challenge(credential()), PASSWORD, "sha256", "n=user,r=x")
    assert server.final(message) == expected
    with pytest.raises(ScramError):
        server.final(message)
