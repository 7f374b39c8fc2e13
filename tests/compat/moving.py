"""`kbroker move` and `kbroker import` as running programs, a producer beside them, and the cluster
that they move to."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from kbroker.cli.mirror.jars import JarsMissing, class_path
from tests.crash.load import create_topic
from tests.peer.eventually import eventually
from tests.peer.kafka_cluster import KafkaCluster

KAFKAS_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUICK = ("--every", "1", "--heap", "256m", "--timeout", "60")


@contextmanager
def running_cluster(folder: Path) -> Iterator[KafkaCluster]:
    """Three Apache Kafka nodes with an authorizer; skips the test without the jars of MirrorMaker
    2."""
    try:
        class_path(None)
    except JarsMissing as reason:
        pytest.skip(f"no MirrorMaker 2: {reason}")
    three = KafkaCluster(folder, KAFKAS_AUTHORIZER)
    three.start()
    try:
        yield three
    finally:
        three.stop()


class Trickle:
    """A producer of 200 records a second to a new topic, or of more: consecutive numbers in each
    partition."""

    def __init__(self, bootstrap: str, topic: str = "live", pause_s: float = 0.015, padding: int = 0) -> None:
        create_topic(bootstrap, topic)
        self.topic = topic
        self.pause_s = pause_s
        self.padding = padding
        self.acknowledged: dict[int, list[int]] = {0: [], 1: [], 2: []}
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self.pause_s):
            for partition in self.acknowledged:
                value = str(number).ljust(self.padding)
                self.producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            self.producer.poll(0)

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None
        self.acknowledged[message.partition()].append(int(message.value()))

    def stop(self) -> None:
        """Stops and waits for the last acknowledgement."""
        self._stop.set()
        self._thread.join()
        assert self.producer.flush(120) == 0


class Mover:
    """A running `kbroker move` or `import`; collects what it says."""

    def __init__(self, folder: Path, *arguments: str, quiet_s: int = 3) -> None:
        self.log = folder / "mirror.log"
        command = [sys.executable, "-m", "kbroker", *arguments]
        self.process = subprocess.Popen(
            [*command, *QUICK, "--idle-timeout", str(quiet_s), "--json", "--log", str(self.log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        )
        self.said: list[str] = []
        self.in_step = threading.Event()
        self.copied: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            if line.startswith("in step"):
                self.in_step.set()
            if found := re.match(r"([0-9,]+) of [0-9,]+ copied ", line):
                self.copied.append(int(found[1].replace(",", "")))
        self.in_step.set()

    def wait_until_it_copies(self) -> None:
        """Until this run has copied records."""
        eventually(lambda: len(set(self.copied)) > 1 or not self._reader.is_alive())
        assert self.process.poll() is None, self.said

    def mirror_maker(self) -> psutil.Process:
        """MirrorMaker's process."""
        (java,) = psutil.Process(self.process.pid).children()
        return java

    def ended(self) -> str:
        """Waits for the end of a command that was stopped or has failed; returns what it said."""
        assert self.process.stdout is not None
        self.process.stdout.read()
        assert self.process.wait(180) != 0
        self._reader.join()
        return "\n".join(self.said)

    def outcome(self) -> Any:
        """What it printed, after its end."""
        assert self.process.stdout is not None
        printed = self.process.stdout.read()
        code = self.process.wait(180)
        self._reader.join()
        mirror = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
        assert code == 0, "\n".join([*self.said, mirror])
        return json.loads(printed)
