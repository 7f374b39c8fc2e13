"""Logins: the messages of SASL exchanges, and the first bytes of a TLS connection. No login
succeeds without the right password."""

import random
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kbroker.config.principal_mapping import name_of, rules_of
from kbroker.ipc.login_messages import FindScramCredential, FindTokenCredential, TokenCredential
from kbroker.ipc.messages import ScramCredential
from kbroker.net.connections.connection import State
from kbroker.net.security.oauth import BadToken, TokenChecks, UnknownKey, first_message
from kbroker.net.security.sasl_exchange import OAUTHBEARER
from kbroker.net.security.scram import ScramError, ScramServer
from kbroker.net.security.tls_alert import AlertContext
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import SIZE, encode_request
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.schema import ProtocolError
from tests.certificates import dated
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Target
from tests.net.security.login_scene import METADATA, VERSIONS, Scene, handshake, token
from tests.net.security.scram_client import credential

GOOD = (b"\0alice\0secret", b"\0bob\0bob")
"""A part of each right token of PLAIN."""
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
NONCE = "rOprNGfwEbeRWgbNEkqO"
BEARER = b"n,a=alice,\x01auth=Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJzdWIiOiJhIn0.c2ln\x01\x01"
RULES = "RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L, RULE:^.*[Cc]=(..).*$/$1/U, DEFAULT"


class _Control:
    """Credentials of every user and token."""

    async def find_credential(self, _: FindScramCredential) -> ScramCredential:
        return CREDENTIAL

    async def find_token(self, message: FindTokenCredential) -> TokenCredential:
        return TokenCredential(CREDENTIAL, message.token_id, 1 << 60)


CREDENTIAL = credential()


class _Logins:
    """A connection of a SASL listener gets frames; each frame is a SCRAM and an OAUTHBEARER
    message, too."""

    def __init__(self, _: Path) -> None:
        self._rules = rules_of(RULES)

    def __call__(self, data: bytes) -> None:
        frames = parts.split(data)
        scene = Scene()
        control: Any = scene.logins._control
        control.find_credential = _Control().find_credential
        with suppress(ProtocolError):
            scene.take(*frames)
        if scene.connection.state is State.READY:
            sent = b"\n".join(frames)
            assert any(right in sent for right in GOOD), "logged in without a password"
        assert scene.is_served == (scene.connection.state is State.READY)
        for frame in frames:
            _scram(frame)
            _oauth(frame)
            with suppress(UnicodeDecodeError):
                name_of(self._rules, frame[:200].decode())


def _scram(message: bytes) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        server = ScramServer(mechanism)
        with suppress(ScramError):
            server.first(message)
            server.challenge(CREDENTIAL)
        server = ScramServer(mechanism)
        server.first(FIRST)
        server.challenge(CREDENTIAL)
        server._nonce = NONCE
        try:
            server.final(message)
        except ScramError:
            continue
        raise AssertionError("a proof without the password is right")


def _oauth(message: bytes) -> None:
    with suppress(ValueError):
        _, bearer = first_message(message)
        checks = TokenChecks.__new__(TokenChecks)
        checks._fetch_at_s, checks._keys, checks._audience = float("inf"), {}, None
        with suppress(BadToken, UnknownKey):
            checks._claims_of(bearer)
            raise AssertionError("a token without a key is right")


def _bare(message: bytes) -> bytes:
    return message


def _authenticate(message: bytes, version: int = 2) -> bytes:
    request = SaslAuthenticateRequest(message)
    return encode_request(ApiKey.SASL_AUTHENTICATE, version, 1, "c", request)[SIZE.size :]


def _login_seeds(_: random.Random) -> Iterable[bytes]:
    plain = b"\0alice\0secret"
    for version in (0, 1):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", OAUTHBEARER, "GSSAPI"):
            wrap = _bare if version == 0 else _authenticate
            for messages in ([plain], [b"\0alice\0wrong"], [FIRST, FINAL], [BEARER, b"\x01"], [b""]):
                yield parts.join([handshake(mechanism, version), *map(wrap, messages)])
    yield parts.join([VERSIONS, handshake(), token()])
    yield parts.join([VERSIONS, VERSIONS, METADATA])
    yield parts.join([handshake(), METADATA])
    yield parts.join([handshake(), token(), handshake(), token("bob", "bob")])
    yield parts.join([handshake(), VERSIONS])
    yield parts.join([b"n,a=user,m=x,n=us=2Cer,r=x,tokenauth=true", b"n,,n=a,r=b,ext=1,other=2"])
    yield parts.join([b"CN=alice,OU=kafka", b"C=de", _authenticate(plain, 0), _authenticate(plain, 1)])
    yield parts.join([b"\0\0\0", FIRST, FINAL, BEARER])


class _Handshake:
    """The server's side of TLS, and the alert of what it refuses."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        dated(folder, "server", now - timedelta(days=1), now + timedelta(days=2))
        self._context = AlertContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")

    def __call__(self, data: bytes) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._context.wrap_bio(incoming, outgoing, server_side=True)
        for piece in parts.split(data):
            incoming.write(piece)
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                assert isinstance(error.alert, bytes)  # type: ignore[attr-defined]  # noqa: PT017
                return
            raise AssertionError("a handshake without a client")


def _tls_seeds(_: random.Random) -> Iterable[bytes]:
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = newest
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        hello = outgoing.read()
        yield parts.join([hello])
        yield parts.join([hello[:20], hello[20:], b"\x14\x03\x03\0\1\1"])
    yield parts.join([b"GET / HTTP/1.1\r\n\r\n"])
    yield parts.join([struct.pack(">ihhih", 300, 18, 3, 1, 4) + bytes(290)])
    yield parts.join([b"\x15\x03\x01\0\2\2\x28"])
    yield parts.join([b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(37)])


TARGETS = (
    Target(
        "logins",
        "SASL messages before a login and in it, names of certificates",
        (
            "kbroker.net.security.logins",
            "kbroker.net.security.sasl_exchange",
            "kbroker.net.security.scram",
            "kbroker.net.security.oauth",
            "kbroker.config.principal_mapping",
        ),
        _Logins,
        _login_seeds,
        parts.change,
        max_bytes=2048,
    ),
    Target(
        "tls",
        "the first bytes of a TLS connection",
        ("kbroker.net.security.tls_alert",),
        _Handshake,
        _tls_seeds,
        parts.change,
        max_bytes=2048,
    ),
)
