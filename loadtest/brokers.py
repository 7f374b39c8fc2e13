"""The broker under test: started in the run's folder, or running at a given address.

Only a broker that was started here can be killed, paused, filled or slowed; everything else is the
same for both.
"""

import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from loadtest.client_settings import read_settings
from loadtest.faults.disk import NoDisk, SmallDisk
from loadtest.faults.preload import NoPreload, Preload
from loadtest.settings import WrongSetting

PATIENCE_S = 180.0  # a JVM that starts beside a busy machine may take minutes
API_VERSIONS_V0 = struct.pack(">hhih4s", 18, 0, 1, 4, b"load")
MAX_ANSWER_BYTES = 1 << 20
"""Far more than the answer has; text of another program is a larger number."""


class NoBroker(RuntimeError):
    """There is no broker to load; the text has the reason."""


class OwnBroker:
    """A broker that was started for the run. Runs in: the conductor. Owner: the conductor, which
    stops it.

    `kind`: kbroker | kafka. `missing`: kinds of faults that are impossible here, with the reason.
    """

    def __init__(self, folder: Path, kind: str, disk_bytes: int, faults: list[str]) -> None:
        try:
            from tests.peer.apache_kafka import ApacheKafka
            from tests.peer.kbroker_node import KBroker
        except ModuleNotFoundError as missing:
            raise NoBroker("only a source tree brings a broker along: give --target host:port") from missing
        self.kind = kind
        self.missing: dict[str, str] = {}
        self.disk: SmallDisk | None = None
        self.preload: Preload | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if "fill" in faults:
            try:
                self.disk = SmallDisk(folder, disk_bytes)
            except NoDisk as reason:
                self.missing["fill"] = str(reason)
        if {"slow", "clock"} & set(faults):
            try:
                self.preload = Preload(folder)
            except NoPreload as reason:
                self.missing["slow"] = self.missing["clock"] = str(reason)
        data = self.disk.folder / "data" if self.disk is not None else folder / "data"
        self.data_dir = data
        self._kbroker = KBroker(folder, {"auto.create.topics.enable": "false"})
        self._kbroker.data_dir = data
        self._kafka = ApacheKafka(folder)
        self._kafka.log_dir = data

    @property
    def bootstrap(self) -> str:
        return self._kbroker.bootstrap if self.kind == "kbroker" else self._kafka.bootstrap

    def start(self) -> None:
        """Raises NoBroker."""
        from tests.peer.artifacts import PeerUnavailable

        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._environment():
                if self.kind == "kbroker":
                    self._kbroker.start(PATIENCE_S)
                else:
                    self._kafka.start({"auto.create.topics.enable": "false"}, PATIENCE_S)
        except (AssertionError, PeerUnavailable, RuntimeError) as failure:
            raise NoBroker(f"{self.kind} did not start: {failure}") from failure

    def stop(self) -> str:
        """Stop the broker cleanly; returns the problem, or an empty text."""
        wrong = ""
        try:
            if self.kind == "kbroker":
                self._kbroker.stop()
            else:
                self._kafka.stop()
        except AssertionError as failure:
            wrong = str(failure)[:2000]
        return wrong

    def close(self, keep: bool) -> None:
        if self.disk is not None:
            self.disk.close(keep)

    def alive(self) -> bool:
        process = self._kbroker.process if self.kind == "kbroker" else self._kafka.process
        return process is not None and process.poll() is None

    def revive(self) -> None:
        """Restart it after its death, with the same port and data."""
        if self.kind == "kbroker":
            self._kbroker.kill9()
        else:
            self._kafka.kill9()
        self.start()

    def restart(self) -> str:
        """Stop it cleanly and start it again, with the same port and data; returns the detail.
        Raises RuntimeError if it does not stop cleanly, NoBroker if it does not start."""
        began = time.monotonic()
        if wrong := self.stop():
            raise RuntimeError(wrong)
        stopped = time.monotonic()
        self.start()
        return f"stopped in {stopped - began:.2f} s, back after {time.monotonic() - stopped:.2f} s"

    def processes(self, role: str) -> list[psutil.Process]:
        """The processes of a role, by their titles; `acceptor` is the parent, `broker` means all
        processes."""
        if self.kind == "kafka":
            return [psutil.Process(self._kafka.pid)]
        if role == "acceptor":
            return [psutil.Process(self._kbroker.pid)]
        return [
            child for title, child in self._kbroker.children().items() if title.startswith(f"kbroker: {role}")
        ]

    def kill(self, role: str, which: float) -> str:
        """kill -9 of one process of the role (`which`: 0..1 picks it), waits for its successor;
        returns the detail."""
        found = self.processes(role)
        if not found:
            raise LookupError(f"no process {role!r}")
        victim = found[int(which * len(found))]
        began = time.monotonic()
        whole = role in ("acceptor", "broker")
        title = f"{self.kind}: {role}" if whole else " ".join(victim.cmdline()).strip()[:40]
        victim.send_signal(signal.SIGKILL)
        if whole:
            self.revive()
        else:
            until = began + PATIENCE_S
            while not any(child.pid != victim.pid for child in self.processes(role)) or len(
                self.processes(role)
            ) < len(found):
                if time.monotonic() > until:
                    raise LookupError(f"{title} was not started again within {PATIENCE_S:.0f} s")
                time.sleep(0.02)
        return f"{title} (pid {victim.pid}), back after {time.monotonic() - began:.2f} s"

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """The preloaded library, for what is started inside."""
        more = self.preload.environment() if self.preload is not None else {}
        before = {name: os.environ.get(name) for name in more}
        os.environ.update(more)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def reached(target: str, file: Path | None, judged: bool = False) -> str:
    """host:port of a broker that answers clients with the settings of the file; all clients of this
    process and its children then use them. judged: also the judge, in Java. Raises NoBroker,
    WrongSetting."""
    if file is None:
        return check_target(target)
    _address(target)
    read_settings(file, target, judged)
    return target


def check_target(target: str) -> str:
    """host:port of a broker that answers. Raises NoBroker, WrongSetting."""
    host, port = _address(target)
    try:
        with socket.create_connection((host, port), timeout=5) as link:
            link.sendall(struct.pack(">i", len(API_VERSIONS_V0)) + API_VERSIONS_V0)
            size = link.recv(4)
            if len(size) != 4 or not 0 < int.from_bytes(size) <= MAX_ANSWER_BYTES:
                raise NoBroker(f"{target} does not speak the Kafka protocol")
    except OSError as failure:
        raise NoBroker(f"no broker at {target}: {failure.strerror or failure}") from failure
    return target


def _address(target: str) -> tuple[str, int]:
    if not target:
        raise WrongSetting("--target is empty; is a shell variable not set?")
    host, _, port = target.rpartition(":")
    if not host or not port.isdigit():
        raise WrongSetting(f"--target {target}: expected host:port")
    return host, int(port)
