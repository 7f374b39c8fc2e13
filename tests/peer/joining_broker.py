"""An Apache Kafka node that is only a broker, and joins the controller of another node."""

import subprocess
import time
from pathlib import Path

from tests.peer.apache_kafka import answers
from tests.peer.kafka_cluster import HEAP, START_S
from tests.peer.ports import free_port
from tests.peer.tools import ToolFailed, java_command, run_tool


class JoiningBroker:
    """A broker of Apache Kafka 4.3.1 in a folder of its own. The caller that starts it stops it."""

    def __init__(
        self, folder: Path, node_id: int, cluster_id: str, voters: str, settings: dict[str, str]
    ) -> None:
        self.folder = folder
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.voters = voters
        self.settings = settings
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> str:
        """Formats the folder, starts the broker, waits until it answers; gives the bootstrap.
        Raises ToolFailed."""
        self.folder.mkdir(parents=True)
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(file))
        output = self.folder / "kafka.out"
        with open(output, "wb") as out:
            command = java_command("kafka.Kafka", str(file), jvm=HEAP)
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not answers(self.port):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.stop()
                raise ToolFailed(f"the broker did not join:\n{output.read_text(errors='replace')[-4000:]}")
            time.sleep(0.2)
        return self.bootstrap

    def stop(self) -> None:
        """kill -9: its data is of no further use."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            **self.settings,
        }
