"""The HTTP server itself: methods, keep-alive, too many clients, a scrape that fails."""

import gzip
import http.client
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kbroker.http.collector import BrokerCollector
from kbroker.http.connection_slots import CONNECTIONS
from kbroker.http.console.service import Console
from kbroker.http.server import MetricsServer
from kbroker.metrics.layout import HISTOGRAM_SUM
from kbroker.metrics.slots import bind
from tests.http.scene import Scene

PAGES = Path(__file__).parents[2] / "docs"


class Served:
    """A server over a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = MetricsServer(listener, scene.collector, scene.health)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class OnlyPage:
    """A console that serves / alone."""

    def serves(self, path: str) -> bool:
        return path == "/"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(Scene(tmp_path))
    yield made
    made.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str) -> tuple[int, bytes]:
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_one_connection_serves_many_requests(served: Served) -> None:
    connection = served.connect()
    connection.connect()
    own = connection.sock.getsockname()
    assert [ask(connection, "GET", path)[0] for path in ("/healthz", "/metrics?x=1", "/", "/none")] == [
        200,
        200,
        200,
        404,
    ]
    assert connection.sock.getsockname() == own
    connection.close()


def test_other_paths_list_those_of_the_port_and_the_pages_to_read(served: Served) -> None:
    _, listed = ask(served.connect(), "GET", "/none")
    assert ask(served.connect(), "GET", "/") == (200, listed)
    assert listed == (
        b"kbroker: /metrics /healthz /readyz\n"
        b"the page about them: kbroker docs observe\n"
        b"the console is not served here; kbroker docs console says why\n"
    )
    served.server.console = cast(Console, OnlyPage())
    status, listed = ask(served.connect(), "GET", "/none")
    assert status == 404
    assert b"\nthe console: / (its API: /api/openapi.json); its page: kbroker docs console\n" in listed
    assert {b"observe", b"console"} == set(re.findall(rb"kbroker docs (\w+)", listed))
    assert all(PAGES.joinpath(f"{name}.md").exists() for name in ("observe", "console"))


def test_head_gives_no_body_and_other_methods_are_refused(served: Served) -> None:
    assert ask(served.connect(), "HEAD", "/metrics") == (200, b"")
    assert ask(served.connect(), "POST", "/metrics")[0] == 501


def test_not_ready_is_503_with_the_reason(served: Served) -> None:
    served.scene.view.informed.clear()
    assert ask(served.connect(), "GET", "/readyz") == (503, b"no news from control yet\n")


def test_a_scrape_that_fails_is_500_and_the_next_one_works(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("broken")

    connection = served.connect()
    with monkeypatch.context() as patch:
        patch.setattr(served.scene.view, "groups", broken, raising=False)
        assert ask(connection, "GET", "/metrics")[0] == 500
    assert ask(connection, "GET", "/metrics")[0] == 200
    connection.close()


def held(served: Served, count: int, sent: bytes = b"") -> list[socket.socket]:
    """Connections that have sent so much, and read nothing."""
    made = []
    for _ in range(count):
        link = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        link.sendall(sent)
        made.append(link)
    return made


def test_a_scrape_is_compressed_on_request(served: Served) -> None:
    connection = served.connect()
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert answer.getheader("Content-Encoding") == "gzip"
    packed = answer.read()
    assert b"kbroker_info" in gzip.decompress(packed)
    assert len(packed) < len(ask(served.connect(), "GET", "/metrics")[1]) / 4


@pytest.mark.parametrize("version", ["abc", "", "1.x", "9" * 400])
def test_a_scrape_of_an_odd_version_is_answered(served: Served, version: str) -> None:
    connection = served.connect()
    accept = f"application/openmetrics-text;version={version}"
    connection.request("GET", "/metrics", headers={"Accept": accept})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert b"kbroker_" in answer.read()
    connection.close()


def test_the_time_of_a_scrape_has_its_text_in_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> bytes:
        served.scene.now += 3
        return b""

    monkeypatch.setattr(BrokerCollector, "text", slow)
    assert ask(served.connect(), "GET", "/metrics")[0] == 200
    words = served.scene.slots(served.scene.shared.http_process).words
    assert words[bind("kbroker_scrape_seconds") + HISTOGRAM_SUM] == pytest.approx(3e9)
    assert words[bind("kbroker_scrapes_total")] == 1


@pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_connections_that_wait_for_their_clients_do_not_block_others(served: Served, sent: bytes) -> None:
    links = held(served, 3 * CONNECTIONS, sent)
    scraper = served.connect()
    assert ask(scraper, "GET", "/metrics")[0] == 200
    links += held(served, CONNECTIONS // 2, sent)
    assert ask(served.connect(), "GET", "/healthz")[0] == 200
    assert ask(served.connect(), "GET", "/readyz")[0] == 200
    for link in links:
        link.close()


def test_while_all_are_at_work_probes_are_answered_and_others_turned_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, arrived = threading.Event(), threading.Semaphore(0)
    slots = served.server.slots
    work = slots.work

    def slow() -> tuple[()]:
        assert go.wait(60)
        return ()

    def noted(connection: socket.socket, busy: bool) -> bool:
        probes_only = work(connection, busy)
        if busy:
            arrived.release()
        return probes_only

    monkeypatch.setattr(served.scene.view, "groups", slow, raising=False)
    monkeypatch.setattr(slots, "work", noted)
    links = held(served, CONNECTIONS, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(CONNECTIONS):
        assert arrived.acquire(timeout=60)
    probe = served.connect()
    assert ask(probe, "GET", "/healthz")[0] == 200
    assert ask(probe, "GET", "/metrics") == (503, b"too many connections are at work\n")
    go.set()
    for link in links:
        assert link.recv(15).startswith(b"HTTP/1.1 200 OK")
        link.close()
    probe.close()


def test_an_unknown_side_of_names_is_refused_in_one_line(served: Served) -> None:
    connection = served.connect()
    status, body = ask(connection, "GET", "/metrics?names=kafka")
    assert status == 200
    assert b"\nkbroker_scrapes_total" not in body
    assert ask(connection, "GET", "/metrics?names=jmx") == (
        400,
        b"names: expected one of all, kbroker, kafka\n",
    )


def test_metrics_are_not_for_pages_of_other_sites(served: Served) -> None:
    """Names of clients, groups and topics are in them. DNS can bind the name of a page to this
    host."""
    for headers, status in (
        ({"User-Agent": "Mozilla/5.0", "Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"User-Agent": "Mozilla/5.0"}, 200),
        ({"User-Agent": "Prometheus/3.0", "Host": "broker-1"}, 200),
    ):
        connection = served.connect()
        connection.request("GET", "/metrics", headers=headers)
        assert connection.getresponse().status == status, headers
        connection.close()
