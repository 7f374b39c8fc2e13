"""One connection to the broker's own listener. Requests are sent one after the other, each with a
deadline."""

import socket
import ssl
import struct
import time
from typing import Any

from kbroker.http.console.refusal import unavailable
from kbroker.http.console.user_login import UserLogin
from kbroker.http.control_view import NoAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import ProtocolError, Struct

CLIENT_ID = "kbroker-console"
DEADLINE_S = 10.0
MAX_BYTES = 64 << 20
"""Maximum size of an answer; the largest expected one is far smaller."""


class LinkBroken(Exception):
    """The connection ended or timed out; a new one may work."""


class LoginRefused(Exception):
    """The broker does not accept the user or the password."""


class BrokerLink:
    """Runs in: http. Owner: the caller's pool; used by one thread at a time. tls: None on a plain
    listener. delay_ms: throttle time of the link, because a quota is used up: the broker reads
    nothing for this time after it was opened."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None, deadline_s: float) -> None:
        self.delay_ms = 0
        self._number = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            link = socket.create_connection(address, deadline_s)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = link if tls is None else tls.wrap_socket(link)
        except OSError as error:
            raise LinkBroken(f"cannot connect to {address[0]}:{address[1]}: {error}") from error

    def open(self, login: UserLogin | None) -> None:
        """Ask for the API versions and log in. Raises LinkBroken, LoginRefused after closing the
        link."""
        try:
            found = self.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(CLIENT_ID, "1"), version=3)
            self._versions = {row.api_key: (row.min_version, row.max_version) for row in found.api_keys}
            self.delay_ms = found.throttle_time_ms
            if login is not None:
                self._log_in(login)
        except BaseException:
            self.close()
            raise

    def ask(
        self, api: ApiKey, request: Struct, version: int | None = None, deadline_s: float = DEADLINE_S
    ) -> Any:
        """Send a request and return its answer. version: None for the newest that both sides know,
        else the maximum. Raises LinkBroken."""
        chosen = self._version(api, version)
        self._number += 1
        try:
            frame = encode_request(api, chosen, self._number, CLIENT_ID, request)
            answer = self._exchange(frame, time.monotonic() + deadline_s)
            number, start = parse_response(answer, api, chosen)
            if number != self._number:
                raise LinkBroken(f"an answer to request {number} instead of {self._number}")
            return decode_exact(response_class(api), chosen, answer, start)
        except (OSError, ProtocolError) as error:
            raise LinkBroken(f"{api.title}: {error}") from error

    def close(self) -> None:
        """End the connection."""
        try:
            self._socket.close()
        except OSError:
            pass

    def _version(self, api: ApiKey, version: int | None) -> int:
        if api == ApiKey.API_VERSIONS:
            return version or 0
        first, last = self._versions.get(api, (0, -1))
        chosen = min(last, APIS[api].max_version, last if version is None else version)
        if chosen < max(first, APIS[api].min_version):
            raise unavailable(f"the broker does not serve {api.title} in a version known here")
        return chosen

    def _exchange(self, frame: bytes, deadline: float) -> memoryview:
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._receive(4, deadline))
        if not 0 <= size <= MAX_BYTES:
            raise LinkBroken(f"an answer of {size} bytes")
        return self._receive(size, deadline)

    def _receive(self, size: int, deadline: float) -> memoryview:
        data = memoryview(bytearray(size))
        have = 0
        while have < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LinkBroken("the broker did not answer in time")
            self._socket.settimeout(left)
            count = self._socket.recv_into(data[have:])
            if not count:
                raise LinkBroken("the broker closed the connection")
            have += count
        return data

    def _log_in(self, login: UserLogin) -> None:
        try:
            client = login.begin(*self._socket.getsockname()[:2])
        except NoAnswer as error:
            raise LinkBroken(str(error)) from error
        hello = self.ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(client.mechanism), version=1)
        if hello.error_code:
            raise LoginRefused(f"the broker does not offer {client.mechanism}")
        exchange = client.exchange()
        challenge = self._authenticate(exchange.first())
        final = self._authenticate(exchange.final(challenge))
        exchange.verify(final)

    def _authenticate(self, message: bytes) -> bytes:
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(message), version=1)
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise LoginRefused("unknown user or wrong password")
        if answer.error_code:
            raise LinkBroken(answer.error_message or f"login failed with error {answer.error_code}")
        return bytes(answer.auth_bytes)
