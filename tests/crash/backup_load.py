"""A load of records and commits whose backups are killed, restored and judged."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.compat.reading import read
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import ROOT, KBroker

PARTITIONS = 3
SEGMENT_BYTES, RECORD_BYTES = 1 << 20, 608
SMALL = {"segment.bytes": str(SEGMENT_BYTES)}


class Load:
    """Plain records to one topic; transactions over two others, with offsets committed in them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.acknowledged: dict[int, int] = defaultdict(int)
        self.committed = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._plain), threading.Thread(target=self._transactions)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for_records(self, more: int = 1) -> None:
        """Until each partition has so many more, and another transaction is committed."""
        before = {partition: self.acknowledged[partition] for partition in range(PARTITIONS)}
        committed = self.committed
        eventually(
            lambda: (
                self.committed > committed
                and all(self.acknowledged[partition] >= n + more for partition, n in before.items())
            )
        )

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _plain(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2})
        count = 0

        def noted(error: object, message: Message) -> None:
            assert error is None
            self.acknowledged[message.partition() or 0] += 1

        while not self._stop.is_set():
            for _ in range(30):
                value = f"{count // PARTITIONS:08d}".encode() + b"x" * (RECORD_BYTES - 8)
                producer.produce("plain", value, partition=count % PARTITIONS, on_delivery=noted)
                count += 1
            producer.poll(0.005)
        assert producer.flush(120) == 0

    def _transactions(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "both"})
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g"})
        producer.init_transactions(120)
        while not self._stop.is_set():
            producer.begin_transaction()
            value = b"%08d" % self.committed
            producer.produce("left", value)
            producer.produce("right", value)
            place = [TopicPartition("left", 0, self.committed + 1)]
            producer.send_offsets_to_transaction(place, reader.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
            self.committed += 1
        reader.close()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kbroker", *words]


def run(*words: str) -> str:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    return [int((message.value() or b"")[:8]) for message in read(bootstrap, topic, partition)]


def judge(bootstrap: str, acknowledged: dict[int, int], committed: int) -> None:
    """Everything acknowledged is there, without holes; transactions are whole, and their offsets
    with them."""
    for partition in range(PARTITIONS):
        found = values(bootstrap, "plain", partition)
        assert found == list(range(len(found)))
        assert len(found) >= acknowledged[partition]
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "both"}).init_transactions(
        60
    )  # ends an open one
    left, right = values(bootstrap, "left"), values(bootstrap, "right")
    assert left == right == list(range(len(left)))
    assert len(left) >= committed
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    (place,) = consumer.committed([TopicPartition("left", 0)], timeout=30)
    consumer.close()
    assert place.offset == len(left)


def kill_at_random(
    bootstrap: str, dest: Path | str, chance: random.Random, took_s: float, times: int, *more: str
) -> None:
    """Begin backups and kill them within the time that one takes, until so many were killed before
    their end. One that ends shows what a backup takes now."""
    kills = begun = copying = 0
    start = time.monotonic()
    while kills < times:
        assert begun < 10 * times, f"only {kills} of {begun} backups were killed before their end"
        before, began = objects(dest), time.monotonic()
        killed = killed_after(bootstrap, dest, chance.uniform(0.1, took_s), *more)
        kills, begun = kills + killed, begun + 1
        if killed:
            copying += not objects(dest) <= before
        else:
            took_s = min(took_s, time.monotonic() - began)
    where, took = " ".join((str(dest), *more)), time.monotonic() - start
    began_copying = f", {copying} after their first object" if isinstance(dest, Path) or more else ""
    print(f"{where}: {kills} of {begun} backups killed in {took:.0f} s{began_copying}")


def objects(dest: Path | str) -> set[Path]:
    """The objects of a folder, also unfinished ones; none of a bucket."""
    return set(Path(dest, "objects").glob("*/*"))


def killed_after(bootstrap: str, dest: Path | str, after_s: float, *more: str) -> bool:
    """Whether the backup was killed before its end."""
    process = subprocess.Popen(
        command("backup", str(dest), "--bootstrap", bootstrap, *more), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    code = process.wait()
    assert code in (0, -signal.SIGKILL), f"the backup failed with {code}"
    return code != 0


def restored(broker_factory: BrokerFactory, dest: Path | str, target: Path) -> KBroker:
    run("restore", str(dest), str(target))
    return broker_factory({"log.dirs": str(target)})
