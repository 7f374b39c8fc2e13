"""The HTTP side of the registry: paths, bodies, logins, errors."""

import importlib.util
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from msgspec.structs import replace

from kbroker.http import finite_json
from kbroker.http.basic_logins import CHALLENGE, BasicLogins, NotLoggedIn
from kbroker.http.bounded_server import RETRY_AFTER_S, BoundedServer
from kbroker.http.connection import HttpConnection
from kbroker.http.console import browser_headers
from kbroker.http.console.caller import Caller, Callers, callers_of
from kbroker.http.console.listener import Access, listener_of
from kbroker.http.console.sessions import Attempts
from kbroker.http.console.turns import Turns
from kbroker.http.control_view import ControlView
from kbroker.http.registry.answers import ROUTES, Function, RegistryRequest
from kbroker.http.registry.failure import UNAVAILABLE, Failure, busy, unprocessable
from kbroker.http.registry.formats import EXTRA
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import dump
from kbroker.http.tls import HttpTls
from kbroker.ipc.child import ChildContext
from kbroker.ipc.schema_rules import has_many_values

log = logging.getLogger(__name__)

NEEDED = ("avro", "grpc_tools", "jsonschema")
"""Packages of the formats."""
TYPE = "application/vnd.schemaregistry.v1+json"
MAX_BODY_BYTES = 8 << 20
MAX_FREE_BODY_BYTES = 64 << 10
"""Maximum of a body that is read without waiting for a turn and, where logins are required, before
the login of its request."""
WAIT_S = 5.0
"""Maximum time that a large request waits for its turn; then it is refused."""
ANSWER_S = 60.0
"""Maximum time for a client to read the answer of a request that holds a turn."""
FAILED_BY_ADDRESS, FAILED_IN_ALL = 50, 150
"""Maximum of failed logins a minute. The broker checks as many of an address at once
(kbroker.login.attempts.address.burst); further ones would wait in its threads."""
_CODES = {
    HTTPStatus.UNAUTHORIZED: 401,
    HTTPStatus.TOO_MANY_REQUESTS: 42901,
    HTTPStatus.SERVICE_UNAVAILABLE: UNAVAILABLE,
}
"""Error codes of the API for refused logins."""
MAX_VALUES = 100_000
"""Maximum of a body's JSON, names included. Three bytes may be a value of eighty in memory."""
_PARSING = threading.Lock()
"""A body of 8 MiB takes several times as much while it is parsed."""
MAX_DEPTH = 100
"""Maximum of a body's JSON: a deeper value might be written to the topic and then be unreadable."""
_CONTEXT = re.compile(r"/contexts/([^/]+)(/.*)")
_ALL_SCHEMAS = re.compile(r"(/contexts/[^/]+)?/schemas/*")
"""The path whose answer may be as long as all schemas."""
Answer = tuple[HTTPStatus, bytes]
"""Status and JSON."""


class Registry:
    """Answers requests. Runs in: http; thread-safe.

    callers: makes a client of the broker, anonymous or for a user. needs_login: refuse anonymous
    requests."""

    def __init__(self, callers: Callers, cluster_id: str, needs_login: bool) -> None:
        self.topic = SchemaTopic()
        self._cluster_id = cluster_id
        self.needs_login = needs_login
        self._anonymous = callers(None, "") if not needs_login else None
        self._large = Turns()
        self._logins = BasicLogins(callers, Attempts(by_address=FAILED_BY_ADDRESS, in_all=FAILED_IN_ALL))

    def answer(self, method: str, target: str, authorization: str, body: bytes, peer: str = "") -> Answer:
        """Status and JSON of one request."""

        def found() -> Any:
            request, function = self._matched(method, target)
            caller = self._caller(authorization, peer)  # before the body is parsed
            if method in ("POST", "PUT"):
                request = replace(request, body=_body(body))
            return self._found(request, function, caller, authorization, peer)

        return _answered(found, f"{method} {target[:200]}")

    def begin_large(self, authorization: str, peer: str) -> Callable[[], None]:
        """Waits for the turn of a request with a large body or answer: few at a time are in memory,
        and of one user not all of them. Returns the end of the turn. Raises Failure."""
        caller = self._caller(authorization, peer)
        user = None if caller is self._anonymous else caller.user
        if not self._large.take(user, WAIT_S):
            raise busy("too many large requests at the same time")
        return partial(self._large.leave, user)

    def _matched(self, method: str, target: str) -> tuple[RegistryRequest, Function]:
        path, _, query = target.partition("?")
        context = "."
        if (match := _CONTEXT.fullmatch(path)) is not None:
            context, path = unquote(match[1]).strip(":"), match[2]
        path = path.rstrip("/") or "/"
        known = [(one, function) for pattern, one, function in ROUTES if pattern.fullmatch(path)]
        if not known:
            raise Failure(HTTPStatus.NOT_FOUND, 404, "HTTP 404 Not Found")
        function = dict(known).get("GET" if method == "HEAD" else method)
        if function is None:
            raise Failure(HTTPStatus.METHOD_NOT_ALLOWED, 405, "HTTP 405 Method Not Allowed")
        parts: Mapping[str, str] = next(
            m.groupdict() for pattern, _, _ in ROUTES if (m := pattern.fullmatch(path))
        )
        values = {name: unquote(value) for name, value in parts.items()}
        caller: Any = self._anonymous
        given = parse_qsl(query, keep_blank_values=True)
        named = {name: value for name, value in given if value}
        return RegistryRequest(
            self.topic, caller, self._cluster_id, context, values, named, parameters=given
        ), function

    def _found(
        self, request: RegistryRequest, function: Function, caller: Caller, authorization: str, peer: str
    ) -> Any:
        """The function's result. A client sends its password with each request, so a login whose
        credential has changed is repeated at once. Raises Failure."""
        try:
            return function(replace(request, caller=caller))
        except Failure:
            if caller is self._anonymous or not caller.is_outdated:
                raise
        return function(replace(request, caller=self._caller(authorization, peer)))

    def _caller(self, authorization: str, peer: str) -> Caller:
        """The client of the request's user. Raises Failure."""
        if self._anonymous is not None:
            return self._anonymous  # users are ignored, as by a registry without security
        try:
            return self._logins.caller(authorization, peer)
        except NotLoggedIn as refusal:
            raise Failure(refusal.status, _CODES[refusal.status], refusal.text) from refusal


def registry_of(context: ChildContext, control: ControlView, host: str) -> Registry | None:
    """The registry; None if no listener accepts the http process as a client."""
    listener = listener_of(host, context.config)
    if listener.access is Access.CLOSED:
        return None  # the acceptor has logged the reason
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        log.warning("the schema registry lacks %s: pip install '%s'", ", ".join(missing), EXTRA)
    callers = callers_of(context, control, listener)
    return Registry(callers, context.cluster_id, listener.access is Access.LOGIN)


def _answered(work: Callable[[], Any], title: str) -> Answer:
    """The answer with a result, or with the error that ended the work."""
    try:
        return HTTPStatus.OK, _json(work())
    except Failure as failure:
        return failure.status, _json({"error_code": failure.code, "message": failure.text})
    except RecursionError:
        text = "the request is nested too deeply"
        return HTTPStatus.UNPROCESSABLE_ENTITY, _json({"error_code": 422, "message": text})
    except Exception:
        log.exception("%s failed", title)
        text = "Internal Server Error, see the broker's log"
        return HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error_code": 50001, "message": text})


def _body(body: bytes) -> Mapping[str, Any]:
    if has_many_values(body, MAX_VALUES):
        raise unprocessable(422, f"the body has more than {MAX_VALUES} values")
    try:
        with _PARSING:
            given = finite_json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Failure(HTTPStatus.BAD_REQUEST, 400, "the body is not JSON") from None
    if type(given) is not dict:
        raise unprocessable(422, "the body is not a JSON object")
    if _depth(given) > MAX_DEPTH:
        raise unprocessable(422, "the body is nested too deeply")
    return given


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        parts = (
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        )
        level = [part for some in parts for part in some]
    return depth


def _json(value: Any) -> bytes:
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        return value.encode("utf-8", "backslashreplace")  # a schema given as JSON instead of text
    return dump(value)


class RegistryServer(BoundedServer):
    """Serves on a socket that already listens. Runs in: http."""

    serves_probes = False

    def __init__(self, listener: socket.socket, registry: Registry, tls: HttpTls | None = None) -> None:
        super().__init__(listener, Handler, tls)
        self.registry = registry


class Handler(HttpConnection):
    """One connection."""

    MAX_BODY_BYTES = MAX_BODY_BYTES
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True
    server: RegistryServer
    _refused: Answer | None = None
    _end_large: Callable[[], None] | None = None

    def admits_body(self, length: int) -> bool:
        """Whether a body may be read: a large one only after the login, and in its turn. Clients
        without a login make the registry hold small bodies only."""
        self._refused = None
        if length > MAX_FREE_BODY_BYTES:
            self.server.slots.work(self.connection, busy=True)
            try:
                self._refused = self._foreign() or self._begin_large()
            finally:
                self.server.slots.work(self.connection, busy=False)
        return self._refused is None

    def request_ended(self) -> None:
        """Others have their turn."""
        if self._end_large is not None:
            self._end_large()
            self._end_large = None

    def _begin_large(self) -> Answer | None:
        """Status and JSON if the request gets no turn."""

        def begin() -> None:
            self._end_large = self._end_large or self.server.registry.begin_large(*self._login())

        answer = _answered(begin, "a large request")
        return None if answer[0] is HTTPStatus.OK else answer

    def refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer in the format of the API."""
        self._send(status, _json({"error_code": int(status), "message": text}))

    def _login(self) -> tuple[str, str]:
        return self.titled_headers().get("Authorization", ""), str(self.client_address[0])

    def _foreign(self) -> Answer | None:
        if not browser_headers.is_foreign(self.titled_headers(), not self.server.registry.needs_login):
            return None
        status = HTTPStatus.FORBIDDEN
        return status, _json({"error_code": int(status), "message": browser_headers.FOREIGN})

    def do_GET(self) -> None:  # noqa: N802  http.server's word
        """All methods: the table of paths decides."""
        if self.body is None and self._refused is None:
            text = "a body needs a Content-Length of at most 8 MiB"
            self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            return
        refused = self._refused if self.body is None else self._foreign()
        if refused is None and _ALL_SCHEMAS.fullmatch(self.path.partition("?")[0]):
            refused = self._begin_large()
        self._send(*(refused or self._answer(self.body or b"")))

    def _answer(self, body: bytes) -> Answer:
        authorization, peer = self._login()
        return self.server.registry.answer(self.command, self.path, authorization, body, peer)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TYPE)
        self.send_header("Content-Length", str(len(body)))
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", CHALLENGE)
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", str(RETRY_AFTER_S))
        self.end_headers()
        if self.command != "HEAD" and self._end_large is not None:
            self.wfile.flush()
            self._send_in_time(body)
        elif self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _send_in_time(self, body: bytes) -> None:
        """A slow reader would exclude others from their turns. Raises TimeoutError."""
        ends_s, left = time.monotonic() + ANSWER_S, memoryview(body)
        while left:
            if (left_s := ends_s - time.monotonic()) <= 0:
                raise TimeoutError(f"an answer was not read in {ANSWER_S} s")
            self.connection.settimeout(left_s)
            left = left[self.connection.send(left) :]
        self.connection.settimeout(self.timeout)
