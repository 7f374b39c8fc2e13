"""The health check of the container says what the broker's readiness says."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "release" / "Containerfile").read_text()


def check(port: int) -> int:
    """Exit code of the health check's command, at a port of the test's."""
    (command,) = (line.partition("CMD ")[2] for line in TEXT.splitlines() if line.startswith(" CMD ["))
    program, *arguments = json.loads(command)
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
