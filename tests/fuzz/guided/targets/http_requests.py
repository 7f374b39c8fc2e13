"""Bytes of HTTP clients, on the port of the metrics and the console and on the registry's; records
that the console reads and filters."""

import io
import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from kbroker.http.connection import HttpConnection
from kbroker.http.connection_slots import ConnectionSlots
from kbroker.http.console.live import Live
from kbroker.http.console.log_reader import Scan, text_filter
from kbroker.http.console.readings import Reader
from kbroker.http.console.record_json import record_json
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.routes import ROUTES
from kbroker.http.console.service import Console
from kbroker.http.console.setup import Setup
from kbroker.http.console.space import Space
from kbroker.http.console.static_files import load
from kbroker.http.registry.server import Handler as RegistryHandler
from kbroker.http.server import Handler
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.protocol.messages.fetch import AbortedTransaction, PartitionData
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Mix, Run, Target
from tests.fuzz.hot_requests import random_batch, sealed
from tests.http.registry.desk import Desk
from tests.http.scene import Scene

REFUSED_PORT = 1
MAX_ANSWERS = 200
ORIGIN = b"Host: localhost\r\nOrigin: http://localhost\r\n"


class _Sink(io.BytesIO):
    """Writes to the answers at once."""

    def __init__(self, sent: bytearray) -> None:
        super().__init__()
        self._sent = sent

    def write(self, data: Any) -> int:
        self._sent += data
        return len(data)


class _Socket:
    """A connection whose client has sent all of its bytes; `sent` are the answers."""

    def __init__(self, data: bytes) -> None:
        self._source = io.BytesIO(data)
        self.sent = bytearray()

    def makefile(self, mode: str, _: int) -> Any:
        return _Sink(self.sent) if "w" in mode else io.BufferedReader(self._source)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def recv(self, _: int) -> bytes:
        return b""

    def settimeout(self, _: float | None) -> None:
        """Nothing waits."""

    setsockopt = shutdown = lambda *_: None


def statuses(answers: bytes) -> list[int]:
    """Of all answers, each of which must have the length that its head says."""
    found, at = [], 0
    while at < len(answers):
        end = answers.find(b"\r\n\r\n", at)
        assert end >= 0, f"no end of a head: {answers[at : at + 200]!r}"
        first, *lines = answers[at:end].split(b"\r\n")
        version, code = first.split(b" ", 2)[:2]
        assert version == b"HTTP/1.1", first
        headers = dict(line.split(b": ", 1) for line in lines)
        found.append(int(code))
        at = end + 4
        if int(code) not in (100, 304) and b"text/event-stream" not in headers.get(b"Content-Type", b""):
            at += int(headers[b"Content-Length"])
    return found


class _Ports:
    """The first byte chooses the port."""

    def __init__(self, folder: Path) -> None:
        scene = self._scene = Scene(folder, {"kbroker.console.readonly": "false"})
        for name in scene.context.ports:
            scene.context.ports[name] = REFUSED_PORT
        shared = scene.shared
        view: Any = scene.view
        space = Space(LogDirErrors([str(folder)], shared), scene.collector.forecasts)
        live = Live(shared, view, scene.health, Reader(shared, 0, (str(folder),)), space)
        page = lambda names: scene.collector.text(names=names).decode()  # noqa: E731
        console: Any = Console(Setup(scene.context, view, live, "127.0.0.1", page), load())
        console.stream = self._end_stream
        self._console = console
        self._csrf = console._csrf.encode()
        self._server = SimpleNamespace(
            collector=scene.collector,
            health=scene.health,
            console=console,
            logins=None,
            slots=ConnectionSlots(),
            server_address=("127.0.0.1", 80),
        )

    def _end_stream(self, _: object, stream: Any, begin: Any) -> None:
        begin()
        self._console._streams.leave(stream.slot)

    def __call__(self, data: bytes) -> None:
        sent = data[1:].replace(b"$CSRF", self._csrf)
        link: Any = _Socket(sent)
        handler: type[HttpConnection] = Handler
        server: Any = self._server
        if data[:1] == b"r":
            handler = RegistryHandler
            server = SimpleNamespace(
                registry=Desk().registry, slots=ConnectionSlots(), server_address=("127.0.0.1", 80)
            )
        handler(link, ("127.0.0.1", 5), server)
        if b"HEAD " in sent:  # answers without the bodies that their heads announce
            return
        found = statuses(bytes(link.sent))
        assert 500 not in found, "an internal error"
        assert len(found) <= MAX_ANSWERS


def _get(path: str, more: bytes = b"", method: str = "GET", body: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return f"{method} {path} HTTP/1.1\r\n".encode() + ORIGIN + more + length + b"\r\n" + body


def _seeds(_: random.Random) -> Iterable[bytes]:
    change = b"Content-Type: application/json\r\nX-Csrf-Token: $CSRF\r\n"
    for route in ROUTES:
        path = route.path
        for parameter in route.in_path:
            path = path.replace("{" + parameter.name + "}", "7" if parameter.kind == "integer" else "a")
        if route.body is None:
            query = "&".join(f"{one.name}={_value(one)}" for one in route.query)
            yield b"c" + _get(f"{path}?{query}" if query else path)
        else:
            body = msgspec.json.encode({one.name: _json_value(one) for one in route.body})
            yield b"c" + _get(path, change, "POST", body)
    for path in (
        "/",
        "/metrics?names=kafka&name[]=kbroker_log_bytes",
        "/healthz",
        "/readyz",
        "/console/page.js",
    ):
        yield b"c" + _get(path, b"Accept-Encoding: gzip\r\nAccept: application/openmetrics-text\r\n")
    for path in (
        "/api/session",
        "/api/openapi.json",
        "/api/events",
        "/api/topics/a/tail?key=x&value=y",
        "/none",
    ):
        yield b"c" + _get(path, b"Cookie: a=b\r\n") + _get("/healthz", b"Connection: close\r\n")
    yield b"c" + _get("/api/login", change, "POST", b'{"user":"u","password":"p"}')
    yield b"c" + _get("/api/logout", change, "POST", b"{}")
    yield b"c" + _get("/healthz", b"Expect: 100-continue\r\n", "POST", b"x")
    yield b"c" + _get("/healthz", b"Transfer-Encoding: chunked\r\n", "POST")
    schema = b'{"schema": "{\\"type\\": \\"string\\"}"}'
    yield b"r" + _get("/subjects/a/versions", method="POST", body=schema) + _get("/subjects")
    yield b"r" + _get("/schemas") + _get("/contexts/.a/subjects", method="HEAD")
    yield b"r" + _get("/config", method="PUT", body=b'{"compatibility": "FULL"}')


def _value(parameter: Any) -> str:
    if parameter.choices:
        return str(parameter.choices[0])
    return {"integer": str(max(1, parameter.low)), "boolean": "true"}.get(parameter.kind, "a")


def _json_value(parameter: Any) -> Any:
    if parameter.choices:
        return parameter.choices[0]
    values: dict[str, Any] = {
        "integer": max(1, parameter.low),
        "boolean": True,
        "map": {"retention.ms": "1000"},
        "numbers": {"producer_byte_rate": 1},
    }
    return values.get(parameter.kind, "a")


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly with the length that the body has, in the last request."""
    found = mix(data[1:])
    head, blank, body = found.rpartition(b"\r\n\r\n")
    if blank and rng.random() < 0.7:
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        if body:
            lines.append(b"Content-Length: %d" % len(body))
        found = b"\r\n".join(lines) + blank + body
    return (data[:1] or b"c") + found


# --- records --------------------------------------------------------------------------------------


def _records(_: Path) -> Run:
    """A fetch of the console: two texts that filter, whether only committed records are shown,
    batches."""

    def run(data: bytes) -> None:
        key, value, flag, records = (*parts.split(data), b"", b"", b"", b"")[:4]
        aborted = [AbortedTransaction(7, 0)] if flag[1:] else []
        answer = SimpleNamespace(
            error_code=0,
            responses=[
                SimpleNamespace(partitions=[PartitionData(records=records, aborted_transactions=aborted)])
            ],
        )
        caller: Any = SimpleNamespace(ask=lambda *_, **__: answer)
        scan = Scan(caller, "t", 0, 1, 0, bool(flag), keeps=True)
        matches = text_filter(key.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
        try:
            found = scan.records()
        except Refusal as refusal:
            assert int(refusal.status) == 503  # noqa: PT017
            return
        for record in found:
            matches(record)
            shown = record_json(0, record, 100, None)
            msgspec.json.encode(shown)

    return run


def _record_seeds(rng: random.Random) -> Iterable[bytes]:
    for flag in (b"", b"c", b"ca"):
        for _ in range(8):
            yield parts.join((b"ke", b"x", flag, random_batch(rng) + random_batch(rng)))
    yield parts.join((b"", "\u00e9".encode(), b"", random_batch(rng)))


def _record_change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    found = parts.split(parts.change(data, rng, mix))
    if len(found) > 3 and rng.random() < 0.7:
        found[3] = sealed(found[3])
    return parts.join(found)


TARGETS = (
    Target(
        "http",
        "bytes of HTTP clients: heads, bodies, the console's paths, queries and changes, the registry's paths",
        ("kbroker.http.",),
        _Ports,
        _seeds,
        _change,
        max_bytes=3000,
        cpu_s=10,
    ),
    Target(
        "console-records",
        "records that the console reads, filters and shows",
        ("kbroker.http.console.log_reader", "kbroker.http.console.record_json", "kbroker.protocol.records"),
        _records,
        _record_seeds,
        _record_change,
    ),
)
