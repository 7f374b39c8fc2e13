"""Requests before and after a login on a SASL listener: no traceback, no process dies, memory
stays.

KBROKER_FUZZ_REQUESTS: send so many, for KBROKER_FUZZ_SECONDS at the most, instead of a share of
that time: `make fuzz-login REQUESTS=1000000`.
"""

import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.any_request import SERVED, any_request
from tests.fuzz.campaign import MARKS, SECONDS, campaign
from tests.fuzz.live_broker import CRASH, GROWTH_BYTES, connect, memory, no_kafka, pids
from tests.fuzz.mutation import mutated
from tests.peer.kbroker_node import KBroker

pytestmark = MARKS
REQUESTS = int(os.environ.get("KBROKER_FUZZ_REQUESTS", "0"))
TOGETHER = 50
"""Requests of one connection."""

MODULE = "org.apache.kafka.common.security"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required user_a="a";',
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    "connection.failed.authentication.delay.ms": "0",
    "connections.max.reauth.ms": "3600000",
    "delegation.token.secret.key": "secret",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:a",
    "kbroker.login.attempts.address.per.second": "0",
    "kbroker.login.attempts.user.per.second": "0",
}
SCRAM_FIRST = b"n,,n=a,r=fyko+d2lbbFgONRv9qkxdawL"
SCRAM_FINAL = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLabc,p=AAAA"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    node = KBroker(tmp_path_factory.mktemp("secured"), SETTINGS)
    node.start()
    yield node
    node.stop()


def login_frames(rng: random.Random, right: bool) -> list[bytes]:
    """A login by PLAIN, or one of any mechanism that goes wrong somewhere."""
    if right:
        mechanism, tokens, versions = "PLAIN", [b"\0a\0a"], (1, 2)
    else:
        mechanism = rng.choice(("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "", "\u00e9" * 99))
        tokens = [
            rng.choice(
                (b"\0a\0b", b"", b"\0" * 9, SCRAM_FIRST, SCRAM_FINAL, rng.randbytes(rng.randrange(300)))
            )
            for _ in range(rng.randrange(4))
        ]
        tokens = [mutated(token, rng) if token and rng.random() < 0.5 else token for token in tokens]
        versions = rng.choice((0, 1)), rng.randrange(3)
    handshake = encode_request(ApiKey.SASL_HANDSHAKE, versions[0], 1, "fuzz", SaslHandshakeRequest(mechanism))
    if versions[0] == 0:
        return [handshake, *(struct.pack(">i", len(token)) + token for token in tokens)]
    requests = (SaslAuthenticateRequest(token) for token in tokens)
    return [
        handshake,
        *(encode_request(ApiKey.SASL_AUTHENTICATE, versions[1], 2, "fuzz", one) for one in requests),
    ]


def any_frame(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return no_kafka(rng)
    frame = any_request(rng, *rng.choice(SERVED))
    return mutated(frame, rng) if kind < 0.4 else frame


def talk(link: socket.socket, frames: list[bytes]) -> int:
    """Send all at once and read until the broker is silent or has closed; the frames that were
    sent."""
    sent = 0
    with suppress(OSError):
        for frame in frames:
            link.sendall(frame)
            sent += 1
    with suppress(OSError):
        link.settimeout(0.02)
        while link.recv(1 << 16):
            pass
    return sent


def test_requests_before_and_after_a_login_leave_no_traceback(secured: KBroker) -> None:
    family, start, sent = pids(secured), memory(secured), [0, 0]

    def one(rng: random.Random) -> None:
        seen = secured.log_file.stat().st_size
        for _ in range(20):
            for logged_in in (False, True):
                with connect(secured) as link:
                    frames = login_frames(rng, right=logged_in)
                    if not logged_in:
                        rng.shuffle(frames)
                    frames += [any_frame(rng) for _ in range(rng.randrange(TOGETHER) if logged_in else 3)]
                    sent[logged_in] += talk(link, frames)
        assert pids(secured) == family, "a process died"
        with open(secured.log_file, encoding="utf-8", errors="replace") as log:
            log.seek(seen)
            text = log.read()
        assert CRASH not in text, text[-6000:]

    if REQUESTS:
        until = time.monotonic() + SECONDS
        while sum(sent) < REQUESTS and time.monotonic() < until:
            campaign(one, 0)
    else:
        campaign(one, 0.1)
    grown = memory(secured) - start
    print(f"{sent[0]} frames before a login, {sent[1]} after; {grown >> 20} MiB more than at first")
    assert grown < GROWTH_BYTES
