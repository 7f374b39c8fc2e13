"""A standalone Spark cluster on loopback: a master and workers of one core each, and what is
submitted to it."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import IO, Self

from spark_validation.java import java_home
from spark_validation.session import ARROW, CACHE, ROOT

BIN = Path(sys.executable).parent
DEPLOY = "org.apache.spark.deploy"
READY = {"master": re.compile(r"(spark://127\.0\.0\.1:\d+)"), "worker": re.compile("registered with master")}
STARTS_WITHIN_S = 240
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class SparkCluster:
    """A master and workers, each a process with a folder of its own. The caller that starts them
    stops them.

    memory_mb: of a worker, and of the driver; a quarter of it is left to Python. quick: compiled
    little, for what takes seconds.
    """

    def __init__(self, folder: Path, workers: int = 2, memory_mb: int = 1024, quick: bool = True) -> None:
        self.folder = folder
        self.workers = workers
        self.memory_mb = memory_mb
        self.java_options = QUICK if quick else ""
        self.url = ""
        self.environment = {
            **os.environ,
            "JAVA_HOME": java_home(CACHE),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",  # of driver and daemons; the judge itself names no host
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
        }
        # what a session of this process has set is not the cluster's
        for name in (
            "PYSPARK_GATEWAY_PORT",
            "PYSPARK_GATEWAY_SECRET",
            "PYSPARK_DRIVER_PYTHON",
            "SPARK_MASTER",
        ):
            self.environment.pop(name, None)
        self._processes: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.events.mkdir()
        try:
            self.url = self._start("master", "--port", "0")
            for number in range(self.workers):
                size = ("--cores", "1", "--memory", f"{self.memory_mb}m")
                self._start(f"worker-{number}", *size, "--work-dir", str(self.work(number)), self.url)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Workers first: they end their executors."""
        for process, _output in reversed(self._processes):
            process.terminate()
        for process, output in reversed(self._processes):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            output.close()
        self._processes.clear()

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def work(self, number: int) -> Path:
        """Folder of a worker's applications."""
        return self.folder / f"work-{number}"

    def _start(self, name: str, *words: str) -> str:
        """Starts a daemon and waits until it says that it is ready; what it said."""
        role = name.partition("-")[0]
        command = [str(BIN / "spark-class"), f"{DEPLOY}.{role}.{role.title()}", "--host", "127.0.0.1"]
        command += ["--webui-port", "0", *words]
        path = self.folder / f"{name}.out"
        output = path.open("wb")
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env=self.environment,
        )
        self._processes.append((process, output))
        deadline = time.monotonic() + STARTS_WITHIN_S
        while (found := READY[role].search(path.read_text(errors="replace"))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"Spark's {name} did not start:\n{path.read_text(errors='replace')[-3000:]}"
                )
            time.sleep(0.1)
        return found[0]

    def submit(self, *words: str, timeout_s: float = 1000) -> subprocess.CompletedProcess[str]:
        """`spark-submit` of the judge with these words, as docs/validation.md says."""
        settings = {
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.executor.memory": f"{self.memory_mb * 3 // 4}m",
            "spark.driver.memory": f"{self.memory_mb * 3 // 4}m",
            "spark.driver.extraJavaOptions": f"{ARROW} {self.java_options}",
            "spark.executor.extraJavaOptions": f"{ARROW} {self.java_options}",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": self.events.as_uri(),
        }
        options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [str(BIN / "spark-submit"), "--master", self.url, *options]
        command += [str(ROOT / "spark_validation" / "__main__.py"), *words]
        environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout_s
        )

    def tasks(self) -> Counter[str]:
        """Worker to tasks that its executors ended well, over all that was submitted."""
        counted: Counter[str] = Counter()
        for path in self.events.iterdir():
            ended: Counter[str] = Counter()
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if (
                    event["Event"] == "SparkListenerTaskEnd"
                    and event["Task End Reason"]["Reason"] == "Success"
                ):
                    ended[event["Task Info"]["Executor ID"]] += 1
            for number in range(self.workers):
                # a worker's folder has one of the application, with one of each executor
                own = {folder.name for folder in (self.work(number) / path.name).iterdir()}
                counted[f"worker-{number}"] += sum(ended[executor] for executor in own)
        return counted
