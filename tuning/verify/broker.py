"""The broker of one turn: `kbroker serve` on free ports of loopback, in a folder of its own."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil

import kbroker

READY = re.compile(r"kbroker ready.*?bootstrap=([^\s:,]+):(\d+)")
START_S = 180.0  # the very first start compiles the kernels
STOP_S = 30.0
PR_SET_PDEATHSIG = 1
PROCESS_CLOCK = 2  # clock_getcpuclockid(3): of a whole process
LOGGED = {"KBROKER_LOG_LEVEL": "INFO", "KBROKER_LOG_FORMAT": "text"}
"""The line that says where it listens is one of INFO."""
OWN = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "kbroker.http.listen": "",
    "auto.create.topics.enable": "false",
}


class TurnFailed(Exception):
    """The broker of a turn did not start, or failed under the load; the text says how."""


class TurnBroker:
    """Runs in: the tuner. Owner: the turn, which leaves it as a context manager: it is stopped
    then, however the turn ended."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.data_dir = folder / "data"
        self.address = ("127.0.0.1", 0)
        self._log = folder / "broker.log"
        self._file = folder / "server.properties"
        pairs = {**settings, **OWN, "log.dirs": str(self.data_dir)}
        self._file.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in pairs.items()))

    def __enter__(self) -> "TurnBroker":
        """Raises TurnFailed."""
        self.data_dir.mkdir()
        library = ctypes.CDLL(None)
        parent = str(Path(kbroker.__file__).parents[1])  # of this kbroker, wherever one of that name may lie
        paths = os.pathsep.join(each for each in (parent, os.environ.get("PYTHONPATH")) if each)
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kbroker", "serve", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths, **LOGGED},
                start_new_session=True,
                preexec_fn=lambda: library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def check(self) -> None:
        """Raises TurnFailed when it has ended by itself."""
        if self._process.poll() is not None:
            raise TurnFailed(f"the broker ended with code {self._process.returncode}: {self._last_lines()}")

    def cpu_seconds(self) -> float:
        """CPU seconds of all processes of the broker."""
        seconds = 0.0
        for each in self._tree():
            try:
                seconds += time.clock_gettime_ns(~each.pid << 3 | PROCESS_CLOCK) / 1e9
            except OSError:
                continue
        return seconds

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while not (found := READY.search(self._log.read_text(errors="replace"))):
            self.check()
            if time.monotonic() > deadline:
                raise TurnFailed(f"the broker did not start within {START_S:.0f} s: {self._last_lines()}")
            time.sleep(0.02)
        self.address = (found[1], int(found[2]))

    def _stop(self) -> None:
        """Orderly, with kill -9 for what outlives it."""
        family = self._tree()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass
        for each in family:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        psutil.wait_procs(family, timeout=5)

    def _tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _last_lines(self, lines: int = 3) -> str:
        return " / ".join(self._log.read_text(errors="replace").splitlines()[-lines:])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
