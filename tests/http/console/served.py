"""A console served without a broker."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from kbroker.http.console.live import Live
from kbroker.http.console.readings import Reader
from kbroker.http.console.service import Console
from kbroker.http.console.setup import Setup
from kbroker.http.console.space import Space
from kbroker.http.console.static_files import load
from kbroker.http.server import MetricsServer
from kbroker.ipc.log_dir_errors import LogDirErrors
from tests.http.scene import Scene
from tests.peer.side_work import SideWork, in_time


class Served:
    """The console of a scene; its broker's port is closed."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", **settings: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        self.scene = Scene(folder, {key.replace("_", "."): value for key, value in settings.items()})
        for name in self.scene.context.ports:
            self.scene.context.ports[name] = port
        shared = self.scene.shared
        space = Space(LogDirErrors([str(folder)], shared), self.scene.collector.forecasts)
        self.live = Live(shared, self.scene.view, self.scene.health, Reader(shared, 0, (str(folder),)), space)
        page = lambda names: self.scene.collector.text(names=names).decode()  # noqa: E731
        self.console = Console(Setup(self.scene.context, self.scene.view, self.live, host, page), load())
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = MetricsServer(listener, self.scene.collector, self.scene.health, self.console)
        self.work = SideWork(lambda: self.server.serve_forever(poll_interval=0.01))

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            named = {"Content-Type": "application/json"} | named
        connection.request(method, path, data, named)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def change(self, path: str, body: Any) -> tuple[int, Any]:
        """A POST as the page makes it."""
        csrf = json.loads(self.ask("GET", "/api/session")[2])["csrf"] or ""
        headers = {"Origin": f"http://127.0.0.1:{self.port}", "X_CSRF_Token": csrf}
        status, _, data = self.ask("POST", path, body, **headers)
        return status, json.loads(data)

    def close(self) -> None:
        in_time(self.server.shutdown)
        self.work.end()
        self.server.server_close()
