"""One Kafka Connect worker (distributed) on a free port, with its default settings but for
addresses and names."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.peer.ports import free_port
from tests.peer.tools import ToolFailed, java_command

JARS = "connect-4.3.1"
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
HEAP = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class ConnectWorker:
    """Kafka Connect in a folder of its own. The caller that starts it stops it. jars: a set of
    `poms/` with Connect and connectors."""

    def __init__(
        self, folder: Path, bootstrap: str, settings: dict[str, str] | None = None, jars: str = JARS
    ) -> None:
        self.folder = folder
        self.jars = jars
        self.output = folder / "connect.out"
        self.url = f"http://127.0.0.1:{free_port()}"
        self.settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "listeners": self.url,
            **(settings or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_s: float = 120) -> None:
        """Starts the worker or starts it again, and waits until it has joined its group and
        answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "connect.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        with open(self.output, "ab") as out:
            command = java_command(MAIN, str(config), jvm=HEAP, jars=self.jars)
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ToolFailed(f"Kafka Connect did not start:\n{self.logs()}")
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return isinstance(self.ask("GET", "/connectors"), list)
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request to its REST interface. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None

    def kill9(self) -> None:
        """kill -9; `start` starts it again."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Orderly stop; kill -9 when it takes too long."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def logs(self, last: int = 4000) -> str:
        return self.output.read_text(errors="replace")[-last:] if self.output.exists() else ""
