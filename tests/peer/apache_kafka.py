"""One Apache Kafka node (KRaft, broker and controller in one) on free ports, as the measure of
kbroker."""

import base64
import signal
import socket
import struct
import subprocess
import time
import uuid
from contextlib import closing
from pathlib import Path

from tests.peer.artifacts import KAFKA
from tests.peer.ports import free_port
from tests.peer.tools import ToolFailed, java_command, run_tool

QUICK_START = ("-XX:TieredStopAtLevel=1",)
"""For a node whose speed nobody measures: it starts with 6 s of CPU instead of 8, its format
included, and compiles nothing a second time while tests run."""
API_VERSIONS_V0 = struct.pack(">hhih4s", 18, 0, 1, 4, b"peer")


def answers(port: int) -> bool:
    """Whether a Kafka protocol server on the port answers ApiVersions: it is started and lets
    requests in."""
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=2)) as link:
            link.sendall(struct.pack(">i", len(API_VERSIONS_V0)) + API_VERSIONS_V0)
            return len(link.recv(4)) == 4
    except OSError:
        return False


class ApacheKafka:
    """Apache Kafka 4.3.1, or that of other jars (`poms/`), in a folder of its own. The caller that
    starts it stops it."""

    def __init__(
        self, folder: Path, heap: str = "512m", jvm: tuple[str, ...] = (), jars: str = KAFKA
    ) -> None:
        self.folder = folder
        self.jars = jars
        self.log_dir = folder / "logs"
        self.output = folder / "kafka.out"
        self.jvm = (f"-Xmx{heap}", f"-Xms{heap}", "-XX:+UseG1GC", "-Xshare:auto", *jvm)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "Apache Kafka is not running"
        return self.process.pid

    def start(self, overrides: dict[str, str] | None = None, timeout_s: float = 240) -> str:
        """Formats the folder the first time, starts the node, waits until it answers; gives the
        bootstrap."""
        config = self.folder / "server.properties"
        if not config.exists() or overrides:
            self.folder.mkdir(parents=True, exist_ok=True)
            config.write_text(
                "".join(f"{key}={value}\n" for key, value in self._settings(overrides or {}).items())
            )
        if not (self.log_dir / "meta.properties").exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            cluster_id = cluster_id.replace("-", "A", 1) if cluster_id.startswith("-") else cluster_id
            run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config), jars=self.jars)
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen(
                java_command("kafka.Kafka", str(config), jvm=self.jvm, jars=self.jars),
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        self._wait_ready(timeout_s)
        return self.bootstrap

    def stop(self, timeout_s: float = 120) -> None:
        """Orderly stop; kill -9 when it takes too long."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill9(self) -> None:
        if self.process is not None:
            self.process.kill()  # of one that has ended by itself, too
            self.process.wait()
            self.process = None

    def restart(self) -> str:
        self.stop()
        return self.start()

    def run_tool(
        self,
        main_class: str,
        *args: str,
        stdin: str | None = None,
        timeout_s: float = 120,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a Java tool of Apache Kafka; `tests.peer.tools.run_tool` does it without a node."""
        return run_tool(main_class, *args, stdin=stdin, timeout_s=timeout_s, check=check)

    def logs(self, last: int = 4000) -> str:
        return self.output.read_text(errors="replace")[-last:] if self.output.exists() else ""

    def _settings(self, overrides: dict[str, str]) -> dict[str, str]:
        self.port = self.port or free_port()
        controller = free_port()
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **overrides,
        }

    def _wait_ready(self, timeout_s: float) -> None:
        assert self.process is not None
        deadline = time.monotonic() + timeout_s
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill9()
                raise ToolFailed(f"Apache Kafka did not start:\n{self.logs()}")
            time.sleep(0.1)
