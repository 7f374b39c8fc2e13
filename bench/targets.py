"""The two brokers under test, each a process tree in a folder of its own with the same settings."""

import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.generator import Generator, LoadFailed
from bench.measure import tree_pids
from tests.peer.artifacts import KAFKA_VERSION
from tests.peer.ports import free_port
from tests.peer.tools import java_command, run_tool

# Kafka's own start script gives these; the heap is added.
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
PROFILED_JVM = ("-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints")
# Deleted topics give their disk space back before the next turn.
SETTINGS = {
    "log.segment.delete.delay.ms": "500",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "1000",
}
# What kbroker gives to clients of its own host by itself (ADR 0010).
KAFKA_SOCKETS = {"socket.send.buffer.bytes": "1048576", "socket.receive.buffer.bytes": "1048576"}
# The controller shall not fence the broker because both were paused.
KAFKA_SESSION = {"broker.session.timeout.ms": "3600000"}

ASK_SECONDS = 2
"""The load generator polls this long, then it is looked whether the broker still runs."""


class TargetFailed(Exception):
    """A broker did not start or stop; the text ends with its log."""


class Target(ABC):
    """One broker. The caller that launches it stops it; the folder and the port outlive a restart.
    extra: settings of a scenario's own."""

    name: str

    def __init__(self, folder: Path, generator: Generator) -> None:
        self.environment: dict[str, str] = {}
        self.folder = folder
        self.generator = generator
        self.data_dir = folder / "data"
        self.port = free_port()
        self.launched_at = 0.0
        self.extra: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Command line that serves `self.data_dir` on `self.port`."""

    @abstractmethod
    def sibling(self, folder: Path) -> "Target":
        """Another broker of the same kind in another folder, with empty data, not launched yet."""

    def prepare(self) -> None:
        """Work that is done once before the first launch and does not count as starting."""
        self.data_dir.mkdir(parents=True, exist_ok=True)

    def only_kafka(self, settings: dict[str, str]) -> dict[str, str]:
        """Settings that kbroker has no use for: empty there."""
        return settings if self.name == "kafka" else {}

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def launch(self) -> None:
        """Starts the process and does not wait for it."""
        self.prepare()
        with open(self.folder / "broker.log", "ab") as log:
            self.launched_at = time.monotonic()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )

    def wait_ready(self, topic: str = "", partitions: int = 0, timeout_s: float = 60) -> float:
        """Seconds from the launch to the first good answer (of all `partitions` of the topic, if
        given)."""
        options = {"port": self.port, "topic": topic, "partitions": partitions, "timeout": ASK_SECONDS}
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                answer = self.generator.run("ready", options, timeout_s=ASK_SECONDS + 30)
            except LoadFailed as failure:
                self.check_alive()
                if time.monotonic() > deadline:
                    raise TargetFailed(f"{self.name}: {failure}\n{self.log_tail()}") from failure
            else:
                return float(answer["ready"]) - self.launched_at

    def pause(self) -> None:
        """The whole process tree stands still (SIGSTOP), so that it costs the other broker
        nothing; it keeps its memory, its connections and what it compiled."""
        self._signal_tree(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a pause."""
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, number: signal.Signals) -> None:
        if self.process is None or self.has_ended:
            return
        for pid in tree_pids(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, timeout_s: float = 60) -> None:
        """Orderly stop; kill -9 of the whole tree, and an error, when it takes too long."""
        if self.process is None:
            return
        self.resume()
        tree = tree_pids(self.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            for pid in tree:
                subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
            self.process.wait()
            raise TargetFailed(f"{self.name} did not stop in {timeout_s} s\n{self.log_tail()}") from None
        finally:
            self.process = None

    @property
    def has_ended(self) -> bool:
        """Whether the broker was launched and has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def check_alive(self) -> None:
        """Raises TargetFailed when the broker has ended by itself."""
        if self.has_ended:
            assert self.process is not None
            raise TargetFailed(f"{self.name} ended with code {self.process.returncode}\n{self.log_tail()}")

    def log_tail(self, characters: int = 3000) -> str:
        log = self.folder / "broker.log"
        return log.read_text(errors="replace")[-characters:] if log.exists() else ""

    def write_properties(self, settings: dict[str, str]) -> Path:
        path = self.folder / "server.properties"
        both = {**settings, **self.extra}
        path.write_text("".join(f"{key}={value}\n" for key, value in both.items()))
        return path


@dataclass(frozen=True)
class KafkaOptions:
    """The settings of Apache Kafka: by default as its start script and its server.properties do."""

    heap: str = "1g"
    profiled: bool = False
    network_threads: int = 3
    io_threads: int = 8

    def __str__(self) -> str:
        threads = f"{self.network_threads} network and {self.io_threads} IO threads"
        return f"KRaft, one node, heap {self.heap}, G1, {threads}, socket buffers of 1 MiB"


class KafkaTarget(Target):
    """Apache Kafka in KRaft mode, broker and controller in one process."""

    name = "kafka"

    def __init__(self, folder: Path, generator: Generator, options: KafkaOptions | None = None) -> None:
        super().__init__(folder, generator)
        self.options = options or KafkaOptions()
        self.controller_port = free_port()

    def sibling(self, folder: Path) -> Target:
        fresh = KafkaTarget(folder, self.generator, self.options)
        shutil.copytree(self.folder / "formatted", folder / "formatted")
        return fresh

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        formatted = self.folder / "formatted"
        if not formatted.exists():
            config = self.write_properties(self._settings(formatted))
            run_tool("kafka.tools.StorageTool", "format", "-t", "bench0000000000000000Q", "-c", str(config))
        if not self.data_dir.exists():
            shutil.copytree(formatted, self.data_dir)
        self.write_properties(self._settings(self.data_dir))

    def command(self) -> list[str]:
        heap, profiled = self.options.heap, self.options.profiled
        jvm = (f"-Xmx{heap}", f"-Xms{heap}", *JVM, *(PROFILED_JVM if profiled else ()))
        return java_command("kafka.Kafka", str(self.folder / "server.properties"), jvm=jvm)

    def _settings(self, data_dir: Path) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data_dir),
            "num.network.threads": str(self.options.network_threads),
            "num.io.threads": str(self.options.io_threads),
            **KAFKA_SOCKETS,
            **KAFKA_SESSION,
            **SETTINGS,
        }


class KbrokerTarget(Target):
    """kbroker as it is installed in the environment that runs the benchmarks.

    congestion: TCP congestion control of its clients on this host; its own choice when empty.
    """

    name = "kbroker"

    def __init__(self, folder: Path, generator: Generator, congestion: str = "") -> None:
        super().__init__(folder, generator)
        self.congestion = congestion

    def sibling(self, folder: Path) -> Target:
        return KbrokerTarget(folder, self.generator, self.congestion)

    def command(self) -> list[str]:
        program = Path(sys.executable).parent / "kbroker"
        return [str(program), "serve", str(self.folder / "server.properties")]

    def prepare(self) -> None:
        super().prepare()
        listeners = f"PLAINTEXT://127.0.0.1:{self.port}"
        http = {"kbroker.http.listen": "127.0.0.1:0"}  # several brokers run at a time
        sockets = {"kbroker.local.congestion.control": self.congestion} if self.congestion else {}
        own = {"listeners": listeners, "log.dirs": str(self.data_dir), **http, **sockets}
        self.write_properties({**own, **SETTINGS})


TARGET_TITLES = {"kafka": f"Apache Kafka {KAFKA_VERSION}", "kbroker": "kbroker"}
