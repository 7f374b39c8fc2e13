"""Logins in odd orders and with odd words, over one connection each: what a broker answers, and
when it closes."""

import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.compat.acl_matrix import PASSWORD
from tests.compat.odd_frames import head
from tests.compat.odd_world import shown
from tests.compat.raw import receive
from tests.compat.side_by_side import Lines

GOOD = f"\0ann\0{PASSWORD}".encode()
Step = tuple[int, int, bytes]
"""API (-1: a bare token), version, body."""


def versions(version: int = 3, name: str = "name") -> Step:
    known = min(max(version, 0), 4)
    return K.API_VERSIONS, version, encode(ApiVersionsRequest(name, "1"), known)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    return K.SASL_HANDSHAKE, version, encode(SaslHandshakeRequest(mechanism), min(max(version, 0), 1))


def authenticate(token: bytes = GOOD, version: int = 2) -> Step:
    return K.SASL_AUTHENTICATE, version, encode(SaslAuthenticateRequest(token), min(max(version, 0), 2))


def bare(token: bytes = GOOD) -> Step:
    return -1, 0, token


LISTED: Step = (K.LIST_GROUPS, 4, encode(ListGroupsRequest(), 4))
TOKENS: Mapping[str, bytes] = {
    "empty": b"", "one null": b"\0", "two nulls": b"\0\0", "no authzid": b"ann\0" + PASSWORD.encode(),
    "authzid": b"ann\0" + GOOD[1:], "other authzid": b"bob\0" + GOOD[1:], "more": GOOD + b"\0more",
    "no user": b"\0\0" + PASSWORD.encode(), "no password": b"\0ann\0", "unknown": b"\0nobody\0x", "wrong": b"\0ann\0x",
    "not text": b"\0\xff\xfe\0x", "long": b"\0" + b"a" * 5000 + b"\0x",
}  # fmt: skip
SCRAM: Mapping[str, bytes] = {
    "empty": b"", "no bare": b"n,,", "binding": b"p=tls-unique,,n=ann,r=abc", "no nonce": b"n,,n=ann",
    "no name": b"n,,r=abcdefgh", "bad escape": b"n,,n=a=ZZn,r=abc", "not text": b"n,,n=\xff\xfe,r=abc", "junk": b"junk",
}  # fmt: skip
"""Without an unknown user: kbroker challenges it as a known one (docs/attacks.md)."""
ORDERS: Mapping[str, Sequence[Step]] = {
    "nothing before": [LISTED],
    "versions, then a request": [versions(), LISTED],
    "versions twice": [versions(), versions(), handshake()],
    "old versions, then new": [versions(99), versions(3), handshake(), authenticate(), LISTED],
    "old versions twice": [versions(99), versions(99), handshake()],
    "odd name": [versions(3, "-"), versions(3), handshake()],
    "token before handshake": [authenticate()],
    "bare token before handshake": [bare()],
    "handshake twice": [handshake(), handshake()],
    "handshake, then versions": [handshake(), versions()],
    "unknown mechanism": [handshake("GSSAPI"), handshake()],
    "unknown mechanism, v0": [handshake("GSSAPI", 0), handshake()],
    "small letters": [handshake("plain"), authenticate()],
    "no mechanism": [handshake(""), authenticate()],
    "unknown handshake": [handshake(version=7), authenticate()],
    "negative handshake": [handshake(version=-1), authenticate()],
    "unknown authenticate": [handshake(), authenticate(version=9)],
    "negative authenticate": [handshake(), authenticate(version=-1)],
    "unknown API": [(999, 0, b"")],
    "good": [versions(), handshake(), authenticate(), LISTED, versions(), LISTED],
    "good, v0": [handshake(), authenticate(version=0), LISTED],
    "good, v1": [handshake(), authenticate(version=1), LISTED],
    "bare": [handshake(version=0), bare(), LISTED],
    "bare, wrong": [handshake(version=0), bare(b"\0ann\0x"), LISTED],
    "bare, empty": [handshake(version=0), bare(b""), LISTED],
    "v0, then a request with a token": [handshake(version=0), authenticate(), LISTED],
    "v1, then a bare token": [handshake(version=1), bare(), LISTED],
    "handshake after the login": [handshake(), authenticate(), handshake(), LISTED],
    "token after the login": [handshake(), authenticate(), authenticate(), LISTED],
    "other mechanism after it": [handshake(), authenticate(), handshake("SCRAM-SHA-256"), authenticate(), LISTED],
    "wrong, then right": [handshake(), authenticate(b"\0ann\0x"), authenticate(), LISTED],
    **{f"token {name}": [handshake(), authenticate(token), LISTED] for name, token in TOKENS.items()},
    **{
        f"scram {name}": [handshake("SCRAM-SHA-256"), authenticate(token), authenticate(b"c=biws,r=x,p=AAAA"), LISTED]
        for name, token in SCRAM.items()
    },
}  # fmt: skip


def held(port: int) -> Lines:
    """All orders with one broker."""
    return [(name, _walked(port, steps)) for name, steps in ORDERS.items()]


def _walked(port: int, steps: Sequence[Step]) -> list[Any]:
    """The answers, until the broker closes the connection."""
    found: list[Any] = []
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as link:
        for api, version, body in steps:
            found.append(_step(link, api, version, body))
            if found[-1] == "closed":
                break
    return found


def _step(link: socket.socket, api: int, version: int, body: bytes) -> Any:
    frame = body if api < 0 else head(api, version) + body
    try:
        link.sendall(len(frame).to_bytes(4) + frame)
        size = receive(link, 4)
    except BrokenPipeError:
        size = None
    answer = None if size is None else receive(link, struct.unpack(">i", size)[0])
    if answer is None:
        return "closed"
    if api < 0:
        return answer
    read = version if version < 90 else 0
    _, start = parse_response(answer, api, read)
    found, _ = decode(response_class(K(api)), read, answer, start)
    challenge = getattr(found, "auth_bytes", b"")
    if challenge:
        found.auth_bytes = b"challenge"  # type: ignore[attr-defined]
    return shown(found)
