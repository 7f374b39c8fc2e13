"""Profiles of a broker during the measured part of a scenario: perf for all of it, py-spy for its
Python."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from bench.measure import tree_pids
from bench.targets import Target

FREQUENCY_HZ = 499
SHOWN_LINES, SHOWN_COLUMNS = 40, 150


class Profiler:
    """Writes `<scenario>-<target>.perf.txt` (and `.pyspy.svg`) into the folder."""

    def __init__(self, folder: Path, scenario: str) -> None:
        self.folder = folder
        self.scenario = scenario
        self.running: list[subprocess.Popen[bytes]] = []
        self.written: list[Path] = []

    def start(self, target: Target) -> None:
        """Attaches to the process tree as it is now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.scenario}-{target.name}"
        if perf := shutil.which("perf"):
            pids = ",".join(map(str, tree_pids(target.pid)))
            data = self.folder / f"{name}.perf.data"
            how = ("-F", str(FREQUENCY_HZ), "--call-graph", "fp")
            self._spawn([perf, "record", "--quiet", *how, "-p", pids, "-o", str(data)])
        if target.name == "kbroker" and (spy := shutil.which("py-spy")):
            image = self.folder / f"{name}.pyspy.svg"
            where = ("--pid", str(target.pid), "--subprocesses", "--output", str(image))
            # Never pausing the broker, or perf would profile the pauses; the native part is perf's.
            self._spawn([spy, "record", *where, "--nonblocking", "--duration", "3600"])
            self.written.append(image)

    def stop(self, target: Target) -> None:
        """Ends the recordings and writes the text report."""
        for process in self.running:
            process.send_signal(signal.SIGINT)
        for process in self.running:
            process.wait(60)
        self.running.clear()
        data = self.folder / f"{self.scenario}-{target.name}.perf.data"
        if data.exists():
            self._name_java_frames(target)
            self._report(data)

    def _spawn(self, command: list[str]) -> None:
        silent = subprocess.DEVNULL
        self.running.append(subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent))

    def _name_java_frames(self, target: Target) -> None:
        """The JVM writes the map of its compiled methods where perf looks for it."""
        if target.name == "kafka" and (jcmd := shutil.which("jcmd")):
            subprocess.run([jcmd, str(target.pid), "Compiler.perfmap"], check=False, capture_output=True)

    def _report(self, data: Path) -> None:
        text = data.with_suffix(".txt")
        for sort, path in (("comm,dso,symbol", text), ("comm,dso", data.with_suffix(".dso.txt"))):
            command = [
                "perf",
                "report",
                "--stdio",
                "--no-children",
                "-g",
                "none",
                "--sort",
                sort,
                "-i",
                str(data),
            ]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PAGER": "cat"})
            path.write_text(done.stdout)
            self.written.append(path)
        lines = [line for line in text.read_text().splitlines() if line.strip() and not line.startswith("#")]
        print(f"\n    profile of {text.stem}:")
        print("\n".join(f"    {line.rstrip()[:SHOWN_COLUMNS]}" for line in lines[:SHOWN_LINES]), flush=True)
