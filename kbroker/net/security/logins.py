"""Logins on SASL listeners: the requests allowed before authentication, and re-authentication
(KIP-43, 152, 368).

Kafka's SaslServerAuthenticator: ApiVersions at most once, SaslHandshake, then tokens, in
SaslAuthenticate requests or (after handshake v0) bare. Any other request closes the connection. A
wrong password is answered with an error and then closes the connection, both after a short delay.
With connections.max.reauth.ms a session ends, unless the client logs in again with the same
mechanism and user. After the login, the kernels serve the connection like any other.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kbroker.config.jaas import plain_users
from kbroker.config.setting import ConfigError
from kbroker.ipc.background import Background
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.login_messages import AttemptLogin, LoginSucceeded
from kbroker.net.connections.connection import Connection, State
from kbroker.net.forward.control_link import ControlLink
from kbroker.net.process import NetworkProcess
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag
from kbroker.net.security.login import Expects, Login
from kbroker.net.security.sasl_exchange import (
    OAUTHBEARER,
    PLAIN,
    SUPPORTED,
    Exchange,
    Refused,
    exchange_of,
)
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import SIZE, RequestHeader, encode_response, parse_request
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.protocol.schema import Struct

if TYPE_CHECKING:  # at run time imported only if a listener offers this mechanism
    from kbroker.net.security.oauth import TokenChecks

log = logging.getLogger(__name__)

_REFUSALS: Mapping[int, Struct] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.API_VERSIONS: ApiVersionsResponse(ErrorCode.ILLEGAL_SASL_STATE),
}
"""Refusals of requests that are allowed before a login but not during one."""
LAST_HANDSHAKE = 1
LAST_AUTHENTICATE = 2
REAUTHENTICATE_NS = 1_000_000_000  # minimum time between two logins of a connection


class Logins:
    """Runs in: network. Owner: Dispatch. control: has the credentials and counts guesses."""

    def __init__(self, process: NetworkProcess, control: ControlLink) -> None:
        self._process = process
        self._control = control
        self._config = process.config
        self._users: dict[str, Mapping[str, str]] = {}
        self._background = Background(log, "a login failed")
        self._checks: dict[str, TokenChecks] = {}

    def change(self, settings: Mapping[str, str]) -> None:
        """Called when dynamic broker settings have changed."""
        if dict(settings) == {**self._config.cluster, **self._config.own}:
            return
        try:
            self._config = self._config.with_dynamic(cluster={}, own=settings)
        except ConfigError as error:
            log.warning("logins keep their settings: %s", error)
        self._users.clear()

    # --- frames -------------------------------------------------------------------------------------

    def takes(self, connection: Connection, frame: bytes | memoryview) -> bool:
        """Serve a frame that belongs to a login; False: it is an ordinary request. Raises
        ProtocolError. A memoryview is not kept."""
        login = connection.login
        if login is None:
            return False
        if connection.state is State.READY:
            if not self._begins_again(connection, login, frame):
                if login.expired:
                    self._process.close(connection, "the SASL session has expired")
                return login.expired
        elif login.expects is Expects.TOKEN and login.bare:
            self._background.start(self._bare_token(connection, login, bytes(frame)))
            return True
        header, body = parse_request(frame)
        connection.api_key = header.api_key
        self._process.counts.begun(connection, header.api_version, len(frame))
        if login.expects is Expects.TOKEN:
            if header.api_key != ApiKey.SASL_AUTHENTICATE or header.api_version > LAST_AUTHENTICATE:
                return self._unexpected(connection, header, "authentication")
            request, _ = decode(SaslAuthenticateRequest, header.api_version, frame, body)
            self._background.start(self._token(connection, login, header, bytes(request.auth_bytes)))
            return True
        if header.api_key == ApiKey.API_VERSIONS and login.expects is Expects.VERSIONS_OR_HANDSHAKE:
            return False
        if header.api_key != ApiKey.SASL_HANDSHAKE or header.api_version > LAST_HANDSHAKE:
            return self._unexpected(connection, header, "SASL handshake")
        handshake, _ = decode(SaslHandshakeRequest, header.api_version, frame, body)
        self._handshake(connection, login, header, handshake.mechanism)
        return True

    def reported_versions(self, connection: Connection, answer: bytes) -> None:
        """ApiVersions is about to be answered to a client that is not logged in yet."""
        at = 2 * SIZE.size
        if connection.login is not None and answer[at : at + 2] == b"\0\0":
            connection.login.expects = Expects.HANDSHAKE

    def _begins_again(self, connection: Connection, login: Login, frame: bytes | memoryview) -> bool:
        """Whether a connection that is logged in logs in again, which it must when its session has
        expired."""
        handshake = int.from_bytes(frame[:2], "big", signed=True) == ApiKey.SASL_HANDSHAKE
        if login.timer is not None and handshake:
            now = time.monotonic_ns()
            if not login.began_ns or now - login.began_ns >= REAUTHENTICATE_NS:
                login.began_ns = now
                login.again = True
                login.expects = Expects.HANDSHAKE
                self._set_state(connection, State.AUTHENTICATING)
                return True
        return False

    def _unexpected(self, connection: Connection, header: RequestHeader, during: str) -> bool:
        why = f"unexpected request of API key {header.api_key} v{header.api_version} during {during}"
        if connection.login is not None and connection.login.expects is Expects.TOKEN:
            refusal = _REFUSALS.get(header.api_key)
            if refusal is not None:
                self._fail(connection, self._frame(header, refusal), why)
                return True
        self._process.refuse(connection, why)
        return True

    # --- handshake ----------------------------------------------------------------------------------

    def enabled(self, listener: str) -> tuple[str, ...]:
        """Mechanisms of a listener."""
        found = self._config.of_listener(listener, "sasl.enabled.mechanisms")
        return tuple(name for name in found if name in SUPPORTED) if isinstance(found, tuple) else ()

    def _handshake(self, connection: Connection, login: Login, header: RequestHeader, mechanism: str) -> None:
        listener = connection.listener.listener
        offered = list(self.enabled(listener))
        login.bare = header.api_version == 0
        if mechanism not in offered:
            answer = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            why = f"SASL mechanism {mechanism} is not enabled"
            self._process.access.audit.login(connection, mechanism, "", why)
            self._fail(connection, self._frame(header, answer), why)
            return
        if login.again and mechanism != login.mechanism:
            login.bad_mechanism = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{login.mechanism}'"
            )
        else:
            login.mechanism = mechanism
            login.exchange = (
                self._oauth_exchange(listener)
                if mechanism == OAUTHBEARER
                else exchange_of(mechanism, lambda: self._plain_users(listener), self._control)
            )
        login.expects = Expects.TOKEN
        self._process.answers.send(connection, [self._frame(header, SaslHandshakeResponse(0, offered))])

    def _oauth_exchange(self, listener: str) -> Exchange:
        # the parent has imported it to check the listener
        from kbroker.net.security.oauth import OAuthExchange, TokenChecks

        found = self._checks.get(listener)
        if found is None:
            found = self._checks[listener] = TokenChecks(self._config, listener)
        return OAuthExchange(found)

    def _plain_users(self, listener: str) -> Mapping[str, str]:
        found = self._users.get(listener)
        if found is None:
            text = self._config.of_listener(listener, "sasl.jaas.config", PLAIN)
            try:
                found = plain_users(text) if isinstance(text, str) else {}
            except ConfigError as error:  # a start checks the text, a change at run time does not
                log.warning("listener %s has no users of PLAIN: %s", listener, error)
                found = {}
            self._users[listener] = found
        return found

    # --- tokens -------------------------------------------------------------------------------------

    async def _token(self, connection: Connection, login: Login, header: RequestHeader, token: bytes) -> None:
        def refused(text: str) -> bytes:
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
            return self._frame(header, response)

        answer = await self._step(connection, login, token, refused)
        if answer is None:
            return
        lifetime_ms = self._complete(connection, login)
        response = SaslAuthenticateResponse(0, "", answer, lifetime_ms)
        self._process.answers.send(connection, [self._frame(header, response)], ends_login=True)

    async def _bare_token(self, connection: Connection, login: Login, token: bytes) -> None:
        connection.api_key = -1
        answer = await self._step(connection, login, token, lambda _: b"")
        if answer is not None:
            self._complete(connection, login)
            self._process.answers.send(connection, [SIZE.pack(len(answer)) + answer], ends_login=True)

    async def _step(
        self, connection: Connection, login: Login, token: bytes, refused: Callable[[str], bytes]
    ) -> bytes | None:
        """The mechanism's answer to a token; None when there is no answer because the connection is
        being closed."""
        exchange = login.exchange
        try:
            if login.bad_mechanism or exchange is None:
                raise Refused(login.bad_mechanism)
            answer = await self._held_back(connection, exchange, token)
            if login.again and exchange.done and exchange.user != connection.user:
                raise Refused(
                    "Cannot change principals during re-authentication from "
                    f"User.{connection.user}: User.{exchange.user}"
                )
        except Refused as refusal:
            doing = "re-authentication" if login.again else "authentication"
            text = refusal.text or (
                f"Authentication failed during {doing} due to invalid credentials with SASL mechanism "
                f"{login.mechanism}"
            )
            user = (exchange.guessed_user(token) or exchange.user) if exchange is not None else ""
            self._process.access.audit.login(connection, login.mechanism, user, text)
            self._fail(connection, refused(text), text)
            return None
        except LinkClosed:
            self._process.close(connection, "control went away during a login")
            return None
        return None if connection.state is State.CLOSED else answer

    async def _held_back(self, connection: Connection, exchange: Exchange, token: bytes) -> bytes:
        """The next step of the exchange, delayed when too many passwords were guessed. From then on
        a connection of the http process has the address of its client. Raises Refused,
        LinkClosed."""
        accepted, user = connection.accepted, exchange.guessed_user(token)
        if user is not None:
            attempt = AttemptLogin(connection.listener.listener, accepted.host, accepted.port, user)
            turn = await self._control.attempt_login(attempt)
            connection.accepted = accepted._replace(host=turn.host)
            if turn.wait_s is None:
                raise Refused(None)
            if turn.wait_s > 0:
                await asyncio.sleep(turn.wait_s)
                if connection.state is State.CLOSED:
                    raise Refused(None)
        answer = await exchange.step(token)
        if user is not None and exchange.done:
            self._control.send(LoginSucceeded(connection.accepted.host, user))
        return answer

    def _complete(self, connection: Connection, login: Login) -> int:
        """Authenticate the client if the exchange is done. Returns the lifetime of its session in
        ms, 0 if it does not expire or the exchange continues."""
        exchange = login.exchange
        if exchange is None or not exchange.done:
            return 0
        login.exchange = None
        login.expired = False
        connection.user = exchange.user
        connection.token_authenticated = exchange.token_authenticated
        self._process.access.audit.login(connection, login.mechanism, exchange.user, "")
        self._set_state(connection, State.READY)
        if login.timer is not None:
            login.timer.cancel()
            login.timer = None
        lifetime_ms = self._lifetime_ms(connection, login.mechanism, exchange)
        if lifetime_ms:
            loop = asyncio.get_running_loop()
            login.timer = loop.call_later(lifetime_ms / 1000, self._expire, connection, login)
            connection.on_end = login.timer.cancel
        return lifetime_ms

    def _lifetime_ms(self, connection: Connection, mechanism: str, exchange: Exchange) -> int:
        """The minimum of the listener's limit and of the remaining lifetime of the client's token,
        as in Kafka; 0 without both."""
        listener = connection.listener.listener
        max_ms = self._config.of_listener(listener, "connections.max.reauth.ms", mechanism)
        left_ms = exchange.left_ms()
        if not isinstance(max_ms, int) or max_ms <= 0:
            return left_ms or 0
        return max_ms if left_ms is None else min(max_ms, left_ms)

    def _expire(self, connection: Connection, login: Login) -> None:
        """End the session: the client must log in again before it sends other requests."""
        login.expired = True
        if connection.state is State.READY:
            self._process.tables.connections[connection.row, ConnectionRow.FLAGS] &= ~(
                Flag.AUTHENTICATED | Flag.FETCH
            )

    def _set_state(self, connection: Connection, state: State) -> None:
        connection.state = state
        words = self._process.tables.connections[connection.row]
        words[ConnectionRow.FLAGS] &= ~(Flag.AUTHENTICATED | Flag.FETCH)
        if state is State.READY:
            words[ConnectionRow.FLAGS] |= Flag.AUTHENTICATED | Flag.FETCH
            self._process.access.know(connection)
            if self._process.quotas.active:
                self._process.quotas.start(connection)

    # --- answers ------------------------------------------------------------------------------------

    @staticmethod
    def _frame(header: RequestHeader, response: Struct) -> bytes:
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _fail(self, connection: Connection, answer: bytes, why: str) -> None:
        """Answer a failed login and close, both after connection.failed.authentication.delay.ms."""
        delay_s = self._config.get_int("connection.failed.authentication.delay.ms") / 1000
        asyncio.get_running_loop().call_later(delay_s, self._end, connection, answer, why)

    def _end(self, connection: Connection, answer: bytes, why: str) -> None:
        if connection.state is State.CLOSED:
            return
        if answer:
            self._process.answers.send(connection, [answer])
        self._process.refuse(connection, f"failed authentication: {why}")
