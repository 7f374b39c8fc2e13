"""A hostile client of the http port and the registry of a running broker: every request gets an
answer of its own or none, nothing outside the served files is read, and probes are answered."""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kbroker.http.connection import CONTINUE
from kbroker.http.connection_slots import CONNECTIONS
from tests.attack.processes import family
from tests.compat.registry_requests import LISTEN, ask, url_of
from tests.conftest import BrokerFactory
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ANSWER_S = 60.0  # a busy host may take seconds
MUTATED = 3000
GROWTH_MB = 100
END = b"\r\nHost: localhost\r\nConnection: close\r\n"
JSON = b"Content-Type: application/json\r\n"
PATHS = (
    b"/console/../../../../etc/passwd", b"/console/%2e%2e/%2e%2e/%2e%2e/etc/passwd", b"/console/..%2f..%2fetc%2fpasswd",
    b"/console/%2e%2e%5c%2e%2e%5cetc%5cpasswd", b"//etc/passwd", b"/console//etc/passwd", b"file:///etc/passwd",
    b"/console/site.js%00.txt", b"/console/%00", b"/api/topics/%00", b"/api/topics/..", b"/api/topics/%2e%2e/messages",
    b"/api/topics/%2e%2e%2f%2e%2e/tail", b"/api/reports/..%2f..%2f..%2fetc%2fpasswd", b"/api/reports/%2fetc%2fpasswd",
    b"/api/groups/%ff", b"/api/topics?limit=1e999", b"/api/topics?limit=99999999999999999999", b"/api/topics?offset=-1",
    b"/api/topics?search=" + b"a" * 60_000, b"/metrics?name[]=" + b"&name[]=x" * 5000, b"/" + b"a" * 65_000,
    b"http://evil.example/metrics", b"*", b"/%", b"/%zz", b"/?" + b"&" * 60_000, b"/api/openapi.json?x=%00",
)  # fmt: skip
HEADERS = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    b"Range: bytes=0-0,1-1," + b"2-2," * 5000 + b"\r\n",
    b"Cookie: kbroker_session=" + b"a" * 60_000 + b"\r\n",
    b"Authorization: Basic " + b"A" * 60_000 + b"\r\n",
    b"Authorization: Basic =\r\n",
    b"If-None-Match: " + b"\xff" * 10_000 + b"\r\n",
    b"Accept-Encoding: gzip;q=nan, *;q=-1\r\n",
    b"Accept: application/openmetrics-text;version=9.9.9," + b"*/*;q=1e9," * 1000 + b"\r\n",
    b"Expect: 100-continue\r\n", b"Expect: 999\r\n", b"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n",
    b"Host: evil.example\r\n", b"X: \x00\r\n", b"X : y\r\n", b" folded\r\n", b"\r", b"X: y\n" * 200,
)  # fmt: skip
BODIES = (
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    b"Content-Length: -1\r\n\r\n", b"Content-Length: +2\r\n\r\n{}", b"Content-Length: 0x2\r\n\r\n{}",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"Content-Length: 99999999999999999999\r\n\r\n{}",
    b"Content-Length: 60000\r\n\r\n" + b"[" * 60_000, b"Content-Length: 60000\r\n\r\n" + b"1" * 60_000,
    b'Content-Length: 13\r\n\r\n{"user": NaN}', b"Content-Length: 2\r\n\r\n\xff\xfe", b"Content-Length: 4\r\n\r\nnull",
)  # fmt: skip
FIRST_LINES = (
    b"GET /\r\n", b"GET\r\n", b"\r\n\r\n\r\n", b"GET / HTTP/9.9" + END + b"\r\n", b"GET / HTTP/0.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 10_000,
    b"a" * 70_000, b"CONNECT evil.example:443 HTTP/1.1" + END + b"\r\n", b"OPTIONS * HTTP/1.1" + END + b"\r\n",
    b"TRACE / HTTP/1.1" + END + b"\r\n", b"GET / HTTP/1.1\r\n\r\n",
)  # fmt: skip


def requests() -> Iterator[bytes]:
    """Hostile requests, each on a connection of its own."""
    yield from FIRST_LINES
    for path in PATHS:
        for method in (b"GET", b"HEAD", b"POST", b"DELETE"):
            yield b"%s %s HTTP/1.1" % (method, path) + END + b"\r\n"
    for path in (b"/", b"/metrics", b"/api/topics", b"/subjects"):
        for header in HEADERS:
            yield b"GET %s HTTP/1.1" % path + END + header + b"\r\n"
    for path in (b"/api/login", b"/api/logout", b"/api/topics", b"/subjects/s/versions", b"/subjects/s"):
        for body in BODIES:
            yield b"POST %s HTTP/1.1" % path + END + JSON + body


def answer(port: int, request: bytes) -> bytes:
    """Everything that a port sends to a client which sends one request and no more."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as link, suppress(ConnectionError):
        link.sendall(request)
        link.shutdown(socket.SHUT_WR)
        while part := link.recv(1 << 16):
            found += part
    return found


def check(request: bytes, received: bytes) -> None:
    """It is an answer, and has nothing of the host."""
    shown = request[:120], received[:200]
    assert b"root:" not in received, shown
    if received:
        status = int(received.removeprefix(CONTINUE).split(b" ", 2)[1])
        assert status in range(200, 500) or status in (501, 503, 505), shown


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> Iterator[KBroker]:
    node = broker_factory({**LISTEN, "kbroker.console.readonly": "false"})
    assert ask(f"{url_of(node)}/subjects")[0] == 200
    http = family(node)["http"]
    before = http.memory_info().rss
    yield node
    assert Service(node).get("/api/overview")
    assert http.is_running()
    grown = (http.memory_info().rss - before) >> 20
    assert grown < GROWTH_MB, f"{grown} MB"
    log = node.log_file.read_text()
    assert "Traceback" not in log
    assert "the console failed" not in log


def ports(broker: KBroker) -> list[int]:
    """Of the console and the registry."""
    return [int(each.rpartition(":")[2]) for each in (Service(broker).address, url_of(broker))]


def test_hostile_requests_are_answered_or_closed(broker: KBroker) -> None:
    for port in ports(broker):
        for request in requests():
            check(request, answer(port, request))


def test_mutated_requests_are_answered_or_closed(broker: KBroker) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    samples = [request for request in requests() if len(request) < 2000]
    both = ports(broker)
    for _ in range(MUTATED):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(data) + 1)
            if chance.random() < 0.3:
                del data[at : at + chance.randrange(20)]
            elif chance.random() < 0.5:
                data[at:at] = chance.choice(
                    (b"\r\n", b"\x00", b"%00", b"%2e", b" ", b":", b"\xff", b"/", b"\n")
                )
            else:
                data[at : at + 1] = bytes((chance.randrange(256),))
        request = bytes(data)
        check(request, answer(chance.choice(both), request))


def test_heads_that_never_end_do_not_exclude_others(broker: KBroker) -> None:
    """A byte now and then on more connections than there are."""
    for port in ports(broker):
        links = [
            socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) for _ in range(2 * CONNECTIONS)
        ]
        for turn in range(10):
            for link in links:
                with suppress(OSError):
                    link.send(b"GET / HTTP/1.1\r\nX: " if not turn else b"y")
            began = time.monotonic()
            path = b"/healthz" if port == ports(broker)[0] else b"/subjects"
            request = b"GET %s HTTP/1.1" % path + END + b"\r\n"
            assert answer(port, request).startswith(b"HTTP/1.1 200 "), f"turn {turn}"
            assert time.monotonic() - began < ANSWER_S
        for link in links:
            link.close()
