"""Three Apache Kafka nodes (KRaft, each broker and controller) on loopback, with small heaps."""

import base64
import subprocess
import time
import uuid
from pathlib import Path

from tests.peer.apache_kafka import answers
from tests.peer.ports import free_port
from tests.peer.tools import ToolFailed, java_command, run_tool

NODES = 3
HEAP = ("-Xmx256m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
START_S = 120


class KafkaCluster:
    """A cluster of Apache Kafka 4.3.1 in a folder of its own. The caller that starts it stops
    it."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = settings or {}
        self.ports = [free_port() for _ in range(NODES)]
        self.controllers = [free_port() for _ in range(NODES)]
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> str:
        """Formats and starts all nodes, waits until each answers; gives the bootstrap. Raises
        ToolFailed."""
        cluster_id = base64.urlsafe_b64encode(b"A" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        files = [self._write(number) for number in range(NODES)]
        for file in files:
            run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file))
        for number, file in enumerate(files):
            with open(self.folder / f"node-{number}.out", "wb") as out:
                command = java_command("kafka.Kafka", str(file), jvm=HEAP)
                process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            self.processes.append(process)
        deadline = time.monotonic() + START_S
        while not all(answers(port) for port in self.ports):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                self.stop()
                raise ToolFailed(f"the cluster did not start:\n{self.logs()}")
            time.sleep(0.2)
        return self.bootstrap

    def stop(self) -> None:
        """kill -9: its data is of no further use."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.processes.clear()

    def logs(self, last: int = 2000) -> str:
        """The ends of the nodes' logs."""
        files = sorted(self.folder.glob("node-*.out"))
        return "\n".join(file.read_text(errors="replace")[-last:] for file in files)

    def _write(self, number: int) -> Path:
        folder = self.folder / f"node-{number}"
        folder.mkdir(parents=True)
        voters = ",".join(f"{n + 1}@127.0.0.1:{port}" for n, port in enumerate(self.controllers))
        port, controller = self.ports[number], self.controllers[number]
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number + 1),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file
