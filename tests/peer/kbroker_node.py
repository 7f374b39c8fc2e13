"""A kbroker of the tests: the real program, on a free port, in a folder of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.peer.ports import free_port

ROOT = Path(__file__).parents[2]
AS_A_CLUSTER_OF_ONE = {
    "kbroker.clamp.replication.factor": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Settings for a comparison with Apache Kafka, which refuses more replicas than there are
brokers."""
KILLED_S = 60
READY = re.compile(r"kbroker ready.*?bootstrap=([^\s,]+)")


class BrokerFailed(AssertionError):
    """kbroker did not start, or did not stop as it should; the text ends with its log."""


class KBroker:
    """`kbroker serve` under test. The caller that starts it stops it; a restart keeps port and
    data."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_file = folder / "kbroker.log"
        self.settings = dict(settings or {})
        self.bootstrap = ""
        self.environment: dict[str, str] = {}
        self.directory = ROOT
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The acceptor's process id."""
        assert self.process is not None, "kbroker is not running"
        return self.process.pid

    def start(self, timeout_s: float = 240) -> str:
        """Starts the broker, waits until it says that it is ready; gives the bootstrap address."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        seen = self.log_file.stat().st_size if self.log_file.exists() else 0
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout_s
        while True:
            with open(self.log_file, "rb") as log:
                log.seek(seen)
                found = READY.search(log.read().decode(errors="replace"))
            if found:
                self.bootstrap = found.group(1)
                return self.bootstrap
            if self.process.poll() is not None or time.monotonic() > deadline:
                why = (
                    f"ended with {self.process.returncode}"
                    if self.process.returncode is not None
                    else "is not ready"
                )
                self.kill9()
                raise BrokerFailed(f"kbroker {why}:\n{self.logs()}")
            time.sleep(0.01)

    def stop(self, timeout_s: float = 90) -> None:
        """Orderly stop (SIGTERM). Raises BrokerFailed on a code other than 0 or when a child
        outlives it."""
        if self.process is None:
            return
        family = self.processes()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise BrokerFailed(f"kbroker did not stop within {timeout_s} s:\n{self.logs()}") from None
        self.process = None
        _, alive = psutil.wait_procs(family, timeout=KILLED_S)
        for orphan in alive:
            orphan.kill()
        if code or alive:
            raise BrokerFailed(f"kbroker stopped with code {code}, {len(alive)} orphans:\n{self.logs()}")

    def restart(self) -> str:
        self.stop()
        return self.start()

    def kill9(self) -> None:
        """kill -9 of the parent and every child at once."""
        if self.process is None:
            return
        family = self.processes()
        for member in family:
            try:
                os.kill(member.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(KILLED_S)
        self.process = None
        psutil.wait_procs(family, timeout=KILLED_S)

    def kill9_child(self, role: str) -> int:
        """kill -9 of the first child whose title holds the role ("network 0", "control"); gives its
        pid."""
        for title, child in self.children().items():
            if role in title:
                child.kill()
                return int(child.pid)
        raise LookupError(f"no child {role!r} among {list(self.children())}")

    def kill9_running(self, role: str) -> None:
        """`kill9_child`, as soon as the successor of one that was killed before is there."""
        deadline = time.monotonic() + 90
        while True:
            try:
                self.kill9_child(role)
                return
            except (LookupError, psutil.NoSuchProcess):
                assert time.monotonic() < deadline, f"{role} was not restarted"
                time.sleep(0.01)

    def processes(self) -> list[psutil.Process]:
        """The parent, then all its descendants."""
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu_s(self) -> float:
        """User + system time of all its processes so far."""
        spent = 0.0
        for member in self.processes():
            with suppress(psutil.NoSuchProcess):
                times = member.cpu_times()
                spent += times.user + times.system
        return spent

    def children(self) -> dict[str, psutil.Process]:
        """Descendants by process title, e.g. "kbroker: network 0"."""
        found: dict[str, psutil.Process] = {}
        for child in self.processes()[1:]:
            try:
                found[" ".join(child.cmdline()).strip()] = child
            except psutil.NoSuchProcess:
                continue
        return found

    def logs(self, last: int = 6000) -> str:
        """The end of what the broker logged, over all its starts."""
        return self.log_file.read_text(errors="replace")[-last:] if self.log_file.exists() else ""

    def _command(self) -> list[str]:
        listener = f"PLAINTEXT://{self.bootstrap or f'127.0.0.1:{free_port()}'}"
        settings = {
            "listeners": listener,
            "log.dirs": str(self.data_dir),
            "kbroker.http.listen": "127.0.0.1:0",
            **self.settings,
        }
        overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
        return [sys.executable, "-m", "kbroker", "serve", *overrides]
