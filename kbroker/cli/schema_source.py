"""Schemas by id, from a schema registry over HTTP (Confluent's REST API)."""

import json
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from ssl import SSLCertVerificationError
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPHandler, ProxyHandler, Request, build_opener

from msgspec import Struct

from kbroker.cli.console_link import SPEAKS_TLS
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed
from kbroker.config.http_login import basic
from kbroker.config.http_owner import NO_HTTP, NotTheBroker, OwnedConnection

MAX_BYTES = 16 << 20
MAX_REFERENCES = 1000


class Owned(HTTPHandler):
    """Sends a login over plain HTTP within this host only to the broker's user."""

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(OwnedConnection, req)


class Schema(Struct, frozen=True):
    """A schema. references: texts of referenced schemas by the name of the reference, each after
    those that it needs."""

    type: str
    text: str
    references: dict[str, str]


class SchemaSource:
    """The registry at a URL; name and password of `http://name:password@host` are sent as HTTP
    basic, to no proxy of the environment: other commands connect directly, too."""

    def __init__(self, url: str, timeout_s: float) -> None:
        try:
            parts = urlsplit(url)
            host = parts.hostname
            _ = parts.port
        except ValueError:
            host = None
        if not host or not host.isprintable() or " " in host or parts.scheme not in ("http", "https"):
            raise UsageFailed(f"--registry {url!r}: expected http://HOST:PORT")
        login, _, place = parts.netloc.rpartition("@")
        self._url = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self._login = basic(unquote(login)) if login else {}
        self._timeout_s = timeout_s
        self._opener = build_opener(ProxyHandler({}), *([Owned()] if login else []))

    def schema(self, schema_id: int) -> Schema:
        """A schema with all of its references. Raises CommandFailed."""
        path = f"/schemas/ids/{schema_id}"
        answer = self._get(path)
        references: dict[str, str] = {}
        self._collect(path, answer, references, set())
        return Schema(str(answer.get("schemaType") or "AVRO"), answer["schema"], references)

    def _collect(self, path: str, answer: dict[str, Any], found: dict[str, str], begun: set[str]) -> None:
        for name, subject, version in self._references(path, answer):
            if name in begun:
                continue
            begun.add(name)
            if len(begun) > MAX_REFERENCES:
                raise CommandFailed(f"the schema refers to more than {MAX_REFERENCES} others")
            place = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            used = self._get(place)
            self._collect(place, used, found, begun)
            found[name] = used["schema"]

    def _references(self, path: str, answer: dict[str, Any]) -> list[tuple[str, str, int]]:
        """Name, subject and version of each reference of a schema. Raises CommandFailed."""
        try:
            return [
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in answer.get("references") or ()
            ]
        except (TypeError, KeyError, ValueError, OverflowError):
            raise self._no_registry(path) from None

    def _get(self, path: str) -> dict[str, Any]:
        """The schema at a path. Raises CommandFailed, Unreachable after the timeout: that of a
        socket starts again with each byte."""
        ended: SimpleQueue[bytes | Exception] = SimpleQueue()

        def read() -> None:
            try:
                ended.put(self._read(path))
            except Exception as error:
                ended.put(error)

        Thread(target=read, daemon=True).start()
        try:
            body = ended.get(timeout=self._timeout_s)
        except Empty:
            raise self._no_answer("timed out") from None
        if isinstance(body, Exception):
            raise body
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise self._no_registry(path) from None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._no_registry(path)
        return found

    def _read(self, path: str) -> bytes:
        request = Request(self._url + path, headers={"Accept": "application/json"})
        for name, value in self._login.items():  # for this host, not for one that it redirects to
            request.add_unredirected_header(name, value)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                body: bytes = answer.read(MAX_BYTES)
                return body
        except HTTPError as error:
            raise self._refusal(error, path) from None
        except NotTheBroker as error:
            raise CommandFailed(f"{self._url}: {error}") from None
        except (URLError, OSError, HTTPException) as error:
            raise self._no_answer(getattr(error, "reason", error)) from None
        except UnicodeError:
            raise UsageFailed(f"--registry {self._url}: not a valid host name") from None
        except ValueError:  # a redirect to no valid address
            raise self._no_registry(path) from None

    def _no_registry(self, path: str) -> CommandFailed:
        return CommandFailed(f"{self._url}{path} is not a schema registry")

    def _refusal(self, error: HTTPError, path: str) -> CommandFailed:
        body = b""
        with suppress(OSError, HTTPException):
            body = error.read(1 << 16)
        if body.rstrip() == SPEAKS_TLS:
            return UsageFailed(f"{self._url}: this port speaks https: --registry https://HOST:PORT")
        return CommandFailed(f"the registry answers {error.code} to {path}: {_message(body) or error.reason}")

    def _no_answer(self, reason: object) -> CommandFailed:
        if isinstance(reason, SSLCertVerificationError):
            why = reason.verify_message or str(reason)
            return UsageFailed(f"{self._url}: {why}; SSL_CERT_FILE=FILE names the certificates to trust")
        text = getattr(reason, "strerror", None) or reason
        text = "no HTTP is spoken there" if type(reason) in NO_HTTP else text
        return Unreachable(f"the registry {self._url} does not answer: {text}")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
