"""Answers the HTTP requests of the console: the page, the API, sessions, streams."""

import gzip
import json
import logging
import re
import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from msgspec import Struct, field

from kbroker import __version__
from kbroker.http import finite_json
from kbroker.http.console import browser_headers, openapi, streams
from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.console.caller import Caller
from kbroker.http.console.listener import Access
from kbroker.http.console.refusal import Refusal, bad_request, not_found, unavailable
from kbroker.http.console.request import Route
from kbroker.http.console.routes import TOPIC, find
from kbroker.http.console.schema import from_body, from_query
from kbroker.http.console.scram_client import ScramFailed
from kbroker.http.console.sessions import LOGIN, Attempts, LoginPlaces, Session, Sessions, same
from kbroker.http.console.setup import Setup
from kbroker.http.console.static_files import PAGE, StaticFile
from kbroker.http.console.views.messages import FILTERS

log = logging.getLogger(__name__)

BODY_BYTES = 65536
PACK_FROM = 1024
JSON = "application/json"
_OTHERS = {
    "/api/openapi.json": ("GET", "HEAD"),
    "/api/session": ("GET", "HEAD"),
    "/api/login": ("POST",),
    "/api/logout": ("POST",),
    "/api/events": ("GET",),
}
"""Paths that are not in the table of routes, and their methods."""
_TAIL = re.compile("/api/topics/(?P<topic>[^/]+)/tail")
"""Path of the stream of a topic's new records, which is not in the table either."""


class Stream(Struct):
    """Events, the slot that they have until they end, and whether the client may still see
    them."""

    events: Iterator[bytes]
    slot: streams.StreamSlot
    is_allowed: Callable[[], bool]


class Reply(Struct):
    """A reply; `stream` instead of a body for server-sent events."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: Stream | None = None


def json_reply(data: Any, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """A JSON reply that must not be cached."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return Reply(status, body, {"Content-Type": JSON, "Cache-Control": "no-store"})


class Console:
    """Runs in: http. Owner: the process's main. Thread-safe: each connection has a thread of its
    own."""

    def __init__(self, setup: Setup, files: Mapping[str, StaticFile]) -> None:
        self._setup = setup
        self._files = files
        self._anybody: Caller = setup.caller(None, "")
        self._csrf = secrets.token_urlsafe(32)
        self._sessions = Sessions()
        self._attempts = Attempts()
        self._streams = streams.Streams()
        self._logins = LoginPlaces()

    @property
    def access(self) -> Access:
        """Access to the console."""
        return self._setup.listener.access

    def serves(self, path: str) -> bool:
        """Whether the console serves this path."""
        return path in ("/", "/favicon.ico") or path.startswith(("/api/", "/console/"))

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, peer: str
    ) -> Reply:
        """Answer a request. headers: names in title case. body: None if it was not read. Raises
        OSError if the connection ends meanwhile."""
        path, _, query = target.partition("?")
        try:
            reply = self._answer(method, path, query, headers, body, peer)
        except Refusal as refusal:
            reply = json_reply({"error": refusal.code, "message": refusal.text}, refusal.status)
        except OSError:
            raise
        except Exception:
            log.exception("the console failed at %s %s", method, path[:200])
            failed = {"error": "failed", "message": "the console failed, see the broker's log"}
            reply = json_reply(failed, HTTPStatus.INTERNAL_SERVER_ERROR)
        reply.headers |= browser_headers.security_headers(headers, self._setup.over_tls)
        return _packed(reply, headers)

    def stream(self, connection: socket.socket, stream: Stream, begin: Callable[[], None]) -> None:
        """Send a stream to its end, then free its slot. begin: sends the answer's head, to a
        client that may be gone."""
        try:
            begin()
            streams.send(connection, stream.events, stream.slot, stream.is_allowed)
        finally:
            self._streams.leave(stream.slot)

    # --- paths -----------------------------------------------------------------------------------------

    def _answer(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes | None, peer: str
    ) -> Reply:
        if self.access is Access.OPEN and not browser_headers.is_this_host(headers.get("Host")):
            text = "on loopback the console only accepts localhost and loopback addresses as Host"
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", text)
        if not path.startswith("/api/"):
            return self._file(method, path, headers)
        methods = _methods(path)
        if methods and method not in methods:
            return _not_allowed(methods)
        data = _body(method, headers, body)
        if method != "POST" and browser_headers.is_foreign(headers, on_loopback=False):
            raise Refusal(HTTPStatus.FORBIDDEN, "origin", browser_headers.FOREIGN)
        if path == "/api/openapi.json" and method in ("GET", "HEAD"):
            return json_reply(openapi.document())
        session = self._sessions.of(browser_headers.cookie_of(headers.get("Cookie")))
        if path == "/api/session" and method in ("GET", "HEAD"):
            from_query((), _query(query))
            return json_reply(self._session(session))
        if path == "/api/login" and method == "POST":
            return self._login(headers, data, peer)
        caller, csrf = self._who(session)
        if path == "/api/logout" and method == "POST":
            self._check_change(headers, csrf)
            from_body((), _json(data))
            return self._logout(headers, session)
        if path == "/api/events" and method == "GET":
            from_query((), _query(query))
            return self._stream(peer, session, streams.samples(self._setup.live, self._setup.visible(caller)))
        if (tail := _TAIL.fullmatch(path)) and method == "GET":
            return self._tail(tail["topic"], query, caller, peer, session)
        return self._routed(method, path, query, headers, data, caller, csrf)

    def _routed(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        data: bytes,
        caller: Caller,
        csrf: str,
    ) -> Reply:
        routes, names = find(path)
        if not routes:
            raise not_found("there is no such path; /api/openapi.json lists them")
        route: Route = routes["GET" if method == "HEAD" else method]
        values = _names(route, names) | from_query(route.query, _query(query))
        if route.body is not None:
            if self._setup.readonly:
                text = "the console only reads; kbroker.console.readonly=false lets it change things"
                raise Refusal(HTTPStatus.FORBIDDEN, "readonly", text)
            self._check_change(headers, csrf)
            values |= from_body(route.body, _json(data))
            log.info("console: %s by %s", path[:300], caller.user or "a client on this host")
        return json_reply(route.answer(self._setup.request(caller, values)))

    def _tail(self, name: str, query: str, caller: Caller, peer: str, session: Session | None) -> Reply:
        values = {"topic": TOPIC[0].of_text(_unquoted(name))} | from_query(FILTERS, _query(query))
        events = streams.tail(self._setup.request(caller, values))
        return self._stream(peer, session, events())

    def _stream(self, peer: str, session: Session | None, events: Iterator[bytes]) -> Reply:
        slot = self._streams.enter(peer)
        if slot is None:
            raise unavailable("too many streams are open, close a page")
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
        token = session.token if session is not None else None
        is_allowed = lambda: token is None or self._sessions.of(token) is not None  # noqa: E731
        return Reply(headers=headers, stream=Stream(events, slot, is_allowed))

    def _file(self, method: str, path: str, headers: Mapping[str, str]) -> Reply:
        if method not in ("GET", "HEAD"):
            return _not_allowed(("GET", "HEAD"))
        name = {"/": PAGE, "/favicon.ico": "icon.svg"}.get(path, path.removeprefix("/console/"))
        found = self._files.get(name)
        if found is None:
            raise not_found("there is no such file")
        kept = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if headers.get("If-None-Match") == found.tag:
            return Reply(HTTPStatus.NOT_MODIFIED, b"", kept)
        kept["Content-Type"] = found.content_type
        if "gzip" in headers.get("Accept-Encoding", ""):
            return Reply(HTTPStatus.OK, found.packed, {**kept, "Content-Encoding": "gzip"})
        return Reply(HTTPStatus.OK, found.data, kept)

    # --- who -------------------------------------------------------------------------------------------

    def _who(self, session: Session | None) -> tuple[Caller, str]:
        if self.access is Access.OPEN:
            return self._anybody, self._csrf
        if session is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "login", "log in first")
        return session.caller, session.csrf

    def _session(self, session: Session | None) -> dict[str, Any]:
        csrf = self._csrf if self.access is Access.OPEN else (session.csrf if session else None)
        return {
            "access": self.access.value,
            "user": session.caller.user if session else None,
            "csrf": csrf,
            "readonly": self._setup.readonly,
            "version": __version__,
        }

    def _check_change(self, headers: Mapping[str, str], csrf: str) -> None:
        if not browser_headers.from_own_page(headers):
            raise Refusal(HTTPStatus.FORBIDDEN, "origin", "changes are taken from pages of this server alone")
        if not same(headers.get("X-Csrf-Token"), csrf):
            raise Refusal(HTTPStatus.FORBIDDEN, "csrf", "the page is out of date, load it again")

    def _login(self, headers: Mapping[str, str], data: bytes, peer: str) -> Reply:
        if self.access is not Access.LOGIN:
            raise bad_request("there is no login here")
        if not browser_headers.from_own_page(headers):
            raise Refusal(HTTPStatus.FORBIDDEN, "origin", "logins are taken from pages of this server alone")
        values = from_body(LOGIN, _json(data))
        if not self._attempts.allowed(peer):
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "attempts", "too many logins failed, wait a minute")
        if not self._logins.enter(peer):
            self._attempts.uncount(peer)
            raise unavailable("too many logins at a time, try again")
        caller = self._setup.caller((values["user"], values["password"]), peer)
        try:
            caller.log_in()
        except (LoginRefused, ScramFailed):
            log.info("console: login of %r from %s failed", values["user"][:100], peer)
            raise Refusal(HTTPStatus.UNAUTHORIZED, "login", "unknown user or wrong password") from None
        except LinkBroken as error:
            self._attempts.uncount(peer)
            raise unavailable(f"the broker cannot be asked: {error}") from error
        finally:
            self._logins.leave(peer)
        self._attempts.succeeded(peer)
        session = self._sessions.begin(caller)
        reply = json_reply(self._session(session))
        reply.headers["Set-Cookie"] = self._cookie(headers, session.token)
        return reply

    def _logout(self, headers: Mapping[str, str], session: Session | None) -> Reply:
        if session is not None:
            self._sessions.end(session.token)
        reply = json_reply(self._session(None))
        reply.headers["Set-Cookie"] = f"{self._cookie(headers, '')}; Max-Age=0"
        return reply

    def _cookie(self, headers: Mapping[str, str], token: str) -> str:
        over_tls = browser_headers.is_over_tls(headers, self._setup.over_tls)
        return browser_headers.cookie(token, over_tls)


def _methods(path: str) -> Collection[str]:
    """The methods that a path of the API supports; empty if there is no such path."""
    if routes := find(path)[0]:
        return (*routes, *(("HEAD",) if "GET" in routes else ()))
    if _TAIL.fullmatch(path):
        return ("GET",)
    return _OTHERS.get(path, ())


def _not_allowed(methods: Collection[str]) -> Reply:
    """405 with the methods that the path supports."""
    text = f"this path accepts only {' and '.join(sorted(set(methods) - {'HEAD'}))}"
    reply = json_reply({"error": "method", "message": text}, HTTPStatus.METHOD_NOT_ALLOWED)
    reply.headers["Allow"] = ", ".join(sorted(methods))
    return reply


def _body(method: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The body, if it was read and cannot come from a page of another origin. Raises Refusal."""
    if headers.get("Transfer-Encoding"):
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "length", "a body needs a Content-Length")
    if body is None:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "length", f"a body has at most {BODY_BYTES} bytes")
    if method == "POST" and headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "type", f"a body is {JSON}")
    return body


def _json(data: bytes) -> Any:
    try:
        return finite_json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None


def _query(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError:
        raise bad_request("the query is malformed") from None


def _unquoted(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise bad_request("a name in the path is not UTF-8") from None


def _names(route: Route, names: Mapping[str, str]) -> dict[str, Any]:
    return {each.name: each.of_text(_unquoted(names[each.name])) for each in route.in_path}


def _packed(reply: Reply, headers: Mapping[str, str]) -> Reply:
    packed = "gzip" in headers.get("Accept-Encoding", "")
    if packed and len(reply.body) >= PACK_FROM and "Content-Encoding" not in reply.headers:
        reply.body = gzip.compress(reply.body, 1)
        reply.headers["Content-Encoding"] = "gzip"
    return reply
