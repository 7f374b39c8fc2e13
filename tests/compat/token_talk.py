"""Conversations about delegation tokens with one broker, of which every answer is kept: what two
brokers say can be compared."""

import base64
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import create_delegation_token as cdt
from kbroker.protocol.messages import describe_delegation_token as ddt
from kbroker.protocol.messages import expire_delegation_token as edt
from kbroker.protocol.messages import renew_delegation_token as rdt
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Struct
from tests.compat.acl_matrix import AUTHORIZER, PASSWORD, UserPeer, creations
from tests.compat.raw import SocketPeer, case, plain, receive
from tests.compat.side_by_side import Lines
from tests.net.security.scram_client import client_final

MODULE = "org.apache.kafka.common.security"
USERS = ("ann", "bob", "eve", "root")
MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
HOUR_MS = 3_600_000
TIMES = frozenset({"issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"})
LEVELLED = TIMES | frozenset(
    {"token_id", "hmac", "issue_timestamp", "expiry_timestamp", "max_timestamp", "session_lifetime_ms"}
    | {"port", "topic_id", "cluster_id", "auth_bytes"}
)
ANY = case("any answer", ApiKey.METADATA, (0, 0), MetadataRequest(None), levelled=LEVELLED, same_text=True)
ERROR = replace(ANY, levelled=LEVELLED - TIMES)
GRANTED = (
    Acl(acls.TOPIC, "anns", acls.LITERAL, "User:ann", "*", acls.DESCRIBE, acls.ALLOW),
    Acl(acls.USER, "User:bob", acls.LITERAL, "User:eve", "*", acls.CREATE_TOKENS, acls.ALLOW),
    Acl(acls.USER, "User:bob", acls.LITERAL, "User:eve", "*", acls.DESCRIBE_TOKENS, acls.ALLOW),
)


def settings(plain_port: int, sasl_port: int, secret: str | None = "s3cret") -> Mapping[str, str]:
    """Of a broker with an authorizer and logins; what Kafka needs besides is `for_kafka`."""
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    listener = "listener.name.sasl_plaintext"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:root",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
        f"{listener}.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {users};",
        **{
            f"{listener}.{name.lower()}.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;"
            for name in MECHANISMS
        },
        **({} if secret is None else {"delegation.token.secret.key": secret}),
    }


def for_kafka(given: Mapping[str, str], controller: int) -> dict[str, str]:
    """The settings, with a controller."""
    protocols = ",".join(f"{name}:{name}" for name in ("PLAINTEXT", "SASL_PLAINTEXT"))
    return {
        **given,
        "advertised.listeners": given["listeners"],
        "listeners": f"{given['listeners']},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
    }


def prepare(port: int) -> None:
    """Give the users what they may; asked by ANONYMOUS, a super user."""
    peer = SocketPeer(port)
    answer: Any = peer.ask(ApiKey.CREATE_ACLS, 3, creations(GRANTED))
    assert not [result for result in answer.results if result.error_code], answer


class TokenPeer(UserPeer):
    """A broker, asked by a client that logs in by a token. login: the answer to its last
    message."""

    def __init__(self, port: int, token: Any, mechanism: str = "SCRAM-SHA-256", hmac: bytes = b"") -> None:
        super().__init__(port, token.token_id)
        self._hmac = hmac or token.hmac
        self._mechanism = mechanism
        self.login: Any = None

    def logged_in(self) -> Any:
        """Log in now. Returns the last answer."""
        self._link = self._login()
        return self.login

    def _login(self) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        bare = f"n={self.user},r=abcdefgh,tokenauth=true"
        steps: list[Callable[[bytes], bytes]] = [
            lambda _: f"n,,{bare}".encode(),
            lambda challenge: client_final(
                challenge, base64.b64encode(self._hmac), MECHANISMS[self._mechanism], bare
            )[0],
        ]
        _step(link, ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(self._mechanism))
        challenge = b""
        for step in steps:
            request = SaslAuthenticateRequest(step(challenge))
            self.login = _step(link, ApiKey.SASL_AUTHENTICATE, 2, request)
            if self.login.error_code:
                break
            challenge = self.login.auth_bytes
        return link


def _step(link: socket.socket, api: ApiKey, version: int, request: Struct) -> Any:
    link.sendall(encode_request(api, version, 1, "raw", request))
    size = receive(link, 4)
    assert size is not None
    frame = receive(link, struct.unpack(">i", size)[0])
    assert frame is not None
    return decode_exact(response_class(api), version, frame, parse_response(frame, api, version)[1])


class Conversation:
    """What users say to one broker about tokens. lines: the answers."""

    def __init__(self, plain_port: int, sasl_port: int) -> None:
        self.sasl_port = sasl_port
        self.anonymous = SocketPeer(plain_port)
        self.users = {user: UserPeer(sasl_port, user) for user in USERS}
        self.lines: Lines = []

    def note(self, label: str, answer: Any) -> Any:
        """Keep an answer."""
        self.lines.append((label, plain(answer, ERROR if getattr(answer, "error_code", 0) else ANY)))
        return answer

    def create(
        self, user: str, owner: str | None = None, renewers: tuple[str, ...] = (), lifetime_ms: int = HOUR_MS
    ) -> Any:
        """A new token, which the broker knows when this returns."""
        kind = None if owner is None else "User"
        named = [cdt.CreatableRenewers("User", renewer) for renewer in renewers]
        request = cdt.CreateDelegationTokenRequest(kind, owner, named, lifetime_ms)
        made: Any = self.users[user].ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
        self.note(f"{user} creates for {owner or 'itself'}", made)
        if not made.error_code:
            self.wait(lambda: made.token_id in self.expiries())
            self.lines.append(("lifetime", made.max_timestamp_ms - made.issue_timestamp_ms))
            self.lines.append(("expiry", made.expiry_timestamp_ms - made.issue_timestamp_ms))
        return made

    def expiries(self) -> dict[str, int]:
        """When each token expires that the broker knows."""
        found: Any = self.users["root"].ask(
            ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, ddt.DescribeDelegationTokenRequest(None)
        )
        return {token.token_id: token.expiry_timestamp for token in found.tokens}

    def renew(self, user: str, hmac: bytes, period_ms: int = -1) -> Any:
        request = rdt.RenewDelegationTokenRequest(hmac, period_ms)
        return self.note(f"{user} renews", self.users[user].ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, request))

    def expire(self, user: str, hmac: bytes, period_ms: int = -1) -> Any:
        request = edt.ExpireDelegationTokenRequest(hmac, period_ms)
        return self.note(f"{user} expires", self.users[user].ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request))

    def describe(self, user: str, owners: tuple[str, ...] | None = None) -> None:
        named = (
            None if owners is None else [ddt.DescribeDelegationTokenOwner("User", owner) for owner in owners]
        )
        request = ddt.DescribeDelegationTokenRequest(named)
        label = f"{user} describes {owners}"
        self.note(label, self.users[user].ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request))

    def every_request(self, who: str, peer: SocketPeer) -> None:
        """All four, in all versions, about nothing that exists."""
        requests: tuple[tuple[ApiKey, int, Struct], ...] = (
            (ApiKey.CREATE_DELEGATION_TOKEN, 3, cdt.CreateDelegationTokenRequest("", "", [], -1)),
            (ApiKey.RENEW_DELEGATION_TOKEN, 2, rdt.RenewDelegationTokenRequest(b"x", -1)),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, edt.ExpireDelegationTokenRequest(b"x", -1)),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, ddt.DescribeDelegationTokenRequest(None)),
        )
        for api, last, request in requests:
            for version in range(1, last + 1):
                answer = self.note(f"{who}: {api.name} v{version}", peer.ask(api, version, request))
                if token_id := getattr(answer, "token_id", ""):
                    self.wait(lambda made=token_id: made in self.expiries())  # type: ignore[misc]

    def topics(self, who: str, peer: SocketPeer) -> None:
        """Which of two topics a client may know of."""
        named = [MetadataRequestTopic(name=name) for name in ("anns", "others")]
        answer: Any = peer.ask(ApiKey.METADATA, 12, MetadataRequest(named, False))
        self.lines.append((f"{who} asks", sorted((topic.name, topic.error_code) for topic in answer.topics)))

    @staticmethod
    def wait(reached: Callable[[], object]) -> None:
        """Apache Kafka's broker learns of changes a little later than it answers."""
        deadline = time.monotonic() + 60
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        for peer in self.users.values():
            peer.close()
