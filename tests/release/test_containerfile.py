"""The container: its health check is the readiness probe, its default command line starts a
broker."""

import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbroker.cli.app import serve_arguments
from kbroker.config import environment, properties
from kbroker.config.broker import BrokerConfig
from kbroker.http.server import MetricsServer
from tests.http.scene import Scene
from tests.http.tls_store import put, tls_of
from tests.release.containerfile import stages

IMAGE = stages()[-1]


def check(port: int) -> int:
    """Exit code of the health check's command, at a port of the test's."""
    program, *arguments = IMAGE.health
    assert program == "python"
    assert "127.0.0.1:9404" in arguments[-1]
    words = [word.replace("127.0.0.1:9404", f"127.0.0.1:{port}") for word in arguments]
    return subprocess.run([sys.executable, *words], stderr=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_health_check_is_the_readiness_probe(status: int, healthy: bool) -> None:
    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Probe) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert (check(server.server_port) == 0) is healthy
        server.shutdown()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_the_health_check_follows_the_port_to_tls(tmp_path: Path) -> None:
    (tmp_path / "scene").mkdir()
    scene, tls = Scene(tmp_path / "scene"), tls_of(put(tmp_path / "web.pem"))
    listener = socket.create_server(("127.0.0.1", 0))
    server = MetricsServer(listener, scene.collector, scene.health, tls=tls)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    codes = []
    for problems in ([], ["starting"]):
        server.health.not_ready = lambda: problems  # type: ignore[method-assign]  # noqa: B023
        codes.append(check(listener.getsockname()[1]))
    assert codes[0] == 0 != codes[1]
    server.shutdown()
    server.server_close()


def default_settings() -> dict[str, str]:
    """The settings file that the image copies to where its command line looks for it."""
    (copied,) = (text.split() for name, text in IMAGE.steps if name == "COPY" and text.startswith("release/"))
    source, target = copied
    program, command, *words = IMAGE.words("ENTRYPOINT") + IMAGE.words("CMD")
    assert (program, command) == ("kbroker", "serve")
    assert serve_arguments(words) == (Path(target), [], True)
    return properties.read(Path(__file__).parents[2] / source)


def test_the_default_command_serves_the_host_of_the_container() -> None:
    config, warnings = BrokerConfig.load(default_settings(), {})
    assert not warnings
    assert config.log_dirs == ("/data/logs",)
    assert [(one.host, one.port) for one in config.advertised_listeners] == [("127.0.0.1", 9092)]


def test_variables_of_a_compose_file_win_over_the_defaults() -> None:
    variables = {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9094",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kbroker:9094",
    }
    config, _ = BrokerConfig.load(environment.over(default_settings(), variables), {})
    assert [(one.host, one.port) for one in config.advertised_listeners] == [("kbroker", 9094)]
