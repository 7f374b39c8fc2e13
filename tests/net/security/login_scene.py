"""One connection of a SASL listener, its network process and control; the frames of logins."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.fds import Accepted
from kbroker.ipc.login_messages import AttemptLogin, LoginTurn
from kbroker.net.connections.connection import State
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag
from kbroker.net.security.login import Login
from kbroker.net.security.logins import REAUTHENTICATE_NS, Logins
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.frame import SIZE, encode_request, parse_response
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ROW = 1
SERVED = Flag.AUTHENTICATED | Flag.FETCH
SETTINGS = {
    "log.dirs": "/d",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="bob";'
    ),
    "connection.failed.authentication.delay.ms": "250",
}
ATTEMPT = AttemptLogin("SASL", "10.0.0.1", 5000, "alice")
REAUTH = "listener.name.sasl.plain.connections.max.reauth.ms"


class Timer:
    """A call of the loop that a test lets happen."""

    def __init__(self, delay_s: float, step: Callable[..., object], *arguments: Any) -> None:
        self.delay_s = delay_s
        self.cancelled = False
        self._step, self._arguments = step, arguments

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        if not self.cancelled:
            self._step(*self._arguments)


class Scene:
    """One connection of a SASL listener, its network process and control."""

    def __init__(self, **settings: str) -> None:
        self.now_ns = 10 * REAUTHENTICATE_NS
        self.rows = ConnectionRow.table(2)
        self.known: list[str] = []
        self.hosts: list[str] = []
        self.audited_hosts: list[str] = []
        self.audited: list[tuple[str, str, bool]] = []
        self.replies: list[bytes] = []
        self.throttled: list[bytes] = []
        self.refused: list[str] = []
        self.closed: list[str] = []
        self.timers: list[Timer] = []
        self.sent: list[object] = []
        self.turn = LoginTurn(0, "10.0.0.1")
        self.slept: list[float] = []
        self.connection: Any = SimpleNamespace(
            row=ROW, state=State.AUTHENTICATING, user="ANONYMOUS", token_authenticated=False, login=Login(),
            listener=SimpleNamespace(listener="SASL"), accepted=Accepted(7, 0, "10.0.0.1", 5000), api_key=-1,
            on_end=None,
        )  # fmt: skip
        audit = SimpleNamespace(login=self._audit)
        process: Any = SimpleNamespace(
            config=BrokerConfig({**SETTINGS, **settings}),
            tables=SimpleNamespace(connections=self.rows),
            access=SimpleNamespace(know=self._know, audit=audit),
            quotas=SimpleNamespace(active=False),
            counts=SimpleNamespace(begun=lambda *_: None),
            answers=SimpleNamespace(send=self._send),
            refuse=lambda _, why: self.refused.append(why),
            close=lambda _, why: self.closed.append(why),
        )
        control: Any = SimpleNamespace(attempt_login=self._attempt, send=self.sent.append)
        self.logins = Logins(process, control)

    def _send(self, connection: Any, parts: list[bytes], ends_login: bool = False) -> None:
        """throttled: answers that may have a throttle time if quotas are set."""
        self.replies.extend(parts)
        if connection.state is State.READY and not ends_login:
            self.throttled.extend(parts)

    def _know(self, connection: Any) -> None:
        self.known.append(connection.user)
        self.hosts.append(connection.accepted.host)

    def _audit(self, connection: Any, mechanism: str, user: str, why: str) -> None:
        self.audited.append((mechanism, user, not why))
        self.audited_hosts.append(connection.accepted.host)

    async def _attempt(self, attempt: AttemptLogin) -> LoginTurn:
        self.sent.append(attempt)
        return self.turn

    def take(self, *frames: bytes) -> list[bool]:
        """Whether each frame was one of a login."""

        async def body() -> list[bool]:
            taken = []
            for frame in frames:
                taken.append(self.logins.takes(self.connection, frame))
                await self.logins._background.wait(60)
            return taken

        return asyncio.run(body())

    @property
    def is_served(self) -> bool:
        """Whether kernels serve the connection."""
        flags = int(self.rows[ROW, ConnectionRow.FLAGS]) & SERVED
        assert flags in (0, SERVED)
        assert bool(flags) <= (self.connection.state is State.READY)
        return bool(flags)

    def answer(self) -> Any:
        """The last token's."""
        at = SIZE.size
        frame = self.replies[-1][at:]
        _, body = parse_response(frame, ApiKey.SASL_AUTHENTICATE, 2)
        return decode(SaslAuthenticateResponse, 2, frame, body)[0]

    def handshake_error(self) -> int:
        frame = self.replies[-1][SIZE.size :]
        _, body = parse_response(frame, ApiKey.SASL_HANDSHAKE, 1)
        return int(decode(SaslHandshakeResponse, 1, frame, body)[0].error_code)

    def log_in(self, user: str = "alice", password: str = "secret") -> None:
        self.take(handshake(), token(user, password))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    request = SaslHandshakeRequest(mechanism)
    return encode_request(ApiKey.SASL_HANDSHAKE, version, 1, "c", request)[SIZE.size :]


def shown(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def token(user: str = "alice", password: str = "secret") -> bytes:
    request = SaslAuthenticateRequest(shown(user, password))
    return encode_request(ApiKey.SASL_AUTHENTICATE, 2, 1, "c", request)[SIZE.size :]


VERSIONS = encode_request(ApiKey.API_VERSIONS, 0, 1, "c", ApiVersionsRequest())[SIZE.size :]
METADATA = encode_request(ApiKey.METADATA, 9, 1, "c", MetadataRequest())[SIZE.size :]
