"""kill -9 of the broker's children, of everything, and of the application: the copy is exact,
nothing hangs."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.clients.transactional_clients import read_to_end
from tests.crash.copier import TRANSACTION, transform
from tests.crash.load import PARTITIONS, create_topic
from tests.peer.kbroker_node import ROOT, KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("KBROKER_KILLS", "8"))
RECORDS = 3000
RESTARTS = 3  # of an application that found its own client stuck
SETTINGS = {
    "log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Application:
    """The copier as a process of its own; `kill` restarts it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "tests.crash.copier", *arguments]
        self._output = open(folder / "copier.out", "ab")  # noqa: SIM115  open as long as the application
        self._starts = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts += 1  # the seed of what this one aborts
        command = [*self._command, str(self._starts)]
        return subprocess.Popen(command, cwd=ROOT, stdout=self._output, stderr=self._output)

    @property
    def is_done(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """kill -9, and another one."""
        if not self.is_done:
            self._process.kill()
            self._process.wait()
            self._process = self._start()

    def finish(self, timeout_s: float) -> int:
        """Wait for its orderly end, restarting it up to RESTARTS times; its last exit code."""
        try:
            for _ in range(RESTARTS):
                if self._process.wait(timeout_s) == 0:
                    break
                self._process = self._start()
            return self._process.wait(timeout_s)
        finally:
            self._process.kill()
            self._output.close()


def fill(bootstrap: str, topic: str) -> None:
    """RECORDS numbers, spread over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(120) == 0


@pytest.mark.parametrize("victim", ["network 0", "io 0", "control", "everything", "application"])
def test_a_copy_is_exact_after_a_kill_of_any_process(
    victim: str, broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker = broker_factory(SETTINGS)
    for topic in ("source", "target"):
        create_topic(broker.bootstrap, topic)
    fill(broker.bootstrap, "source")
    application = Application(tmp_path, broker.bootstrap, "source", "target", str(PARTITIONS), str(RECORDS))
    kills = 0
    while kills < KILLS and not application.is_done:
        time.sleep(random.Random(kills).uniform(0.1, 0.5))
        if victim == "application":
            application.kill()
        elif victim == "everything":
            broker.kill9()
            broker.start()
        else:
            broker.kill9_running(victim)
        kills += 1
    assert application.finish(300) == 0, broker.logs()
    print(f"{victim}: {kills} kills")
    assert kills > 0
    # the last commit was answered before its markers were in the logs
    Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": TRANSACTION}).init_transactions(90)
    for partition in range(PARTITIONS):
        expected = [transform(str(n).encode()) for n in range(partition, RECORDS, PARTITIONS)]
        found = read_to_end(broker.bootstrap, "target", partition=partition)
        assert found == expected, f"partition {partition}: {len(found)} of {len(expected)}"
    broker.stop()
