"""The HTTP server itself: methods, keep-alive, too many clients, a scrape that fails."""

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.http import server as server_module
from kbroker.http.server import MetricsServer
from tests.http.scene import Scene


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
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


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


def test_too_many_connections_are_turned_away_until_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 1)
    served = Served(Scene(tmp_path))
    first = served.connect()
    assert ask(first, "GET", "/healthz")[0] == 200
    assert ask(served.connect(), "GET", "/healthz")[0] == 503
    first.close()
    for _ in range(1000):
        if ask(served.connect(), "GET", "/healthz")[0] == 200:
            break
    else:
        pytest.fail("the room of a closed connection is not given back")
    served.close()
