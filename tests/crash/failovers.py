"""Failovers after which the former leader has records that no other replica has, so that it
truncates its log when it is back, another topic's by whole segments.

Killing a leader while its follower is held up is not enough. A follower reads the files of its
leader, so it copies the rest when it continues, up to the moment when it leads itself or the
leader's successor opens the log. So it is held up until both have happened.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peer.kbroker_node import KBroker

LOOK_S = 0.02
HELD_S = 25.0  # a worker that hangs for replica.lag.time.max.ms (30 s) may not lead
ANSWER_S = 5.0
AHEAD = 4  # a truncation cuts the first segment that the follower lacks, and deletes the others


class Failovers:
    """Of the partitions of a topic that a load writes to, with a replica on each of two sites of
    one IO worker. dirs: the sites. done: how many there were."""

    def __init__(self, broker: KBroker, dirs: list[Path], topic: str) -> None:
        self._broker = broker
        self._dirs = dirs
        self._topic = topic
        self._ahead = f"{topic}-ahead"
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self._until = 0.0
        self.done = 0

    def fail_over(self, until: float) -> None:
        """When the replicas are in sync, kill the leader of some partitions while it has records
        that its follower lacks; returns when the follower leads. Gives up when the broker has
        ended, or at a time (monotonic, s)."""
        self._until = until
        self._create_ahead()
        leaders: dict[int, int] = {}
        beside: dict[int, int] = {}

        def in_sync() -> bool:
            nonlocal leaders, beside
            leaders, beside = self._leaders_in_sync(self._topic), self._leaders_in_sync(self._ahead)
            return bool(leaders and beside)

        if not self._wait(in_sync, until):
            return
        worker = min(leaders.values())
        led = [partition for partition, leader in leaders.items() if leader == worker]
        ahead = [partition for partition, leader in beside.items() if leader == worker]
        with suppress(psutil.Error, KeyError):
            children = self._broker.children()
            follower, leader = children[_title(1 - worker)], children[_title(worker)]
            follower.suspend()
            try:
                held_until = time.monotonic() + HELD_S
                self._write_ahead(ahead)
                if self._wait(lambda: any(self._is_ahead(worker, one) for one in led), held_until):
                    leader.kill()
                    self.done += self._wait(lambda: self._is_replaced(worker, leader.pid), held_until)
            finally:
                follower.resume()

    def _wait(self, condition: Callable[[], bool], until: float) -> bool:
        process = self._broker.process
        while process is not None and process.poll() is None:
            if condition():
                return True
            if time.monotonic() > min(until, self._until):
                return False
            time.sleep(LOOK_S)
        return False

    def _create_ahead(self) -> None:
        topic = NewTopic(self._ahead, 2, len(self._dirs), config={"segment.ms": "1"})
        with suppress(KafkaException, TimeoutError):  # it exists; or there is no answer
            self._admin.create_topics([topic], request_timeout=ANSWER_S)[self._ahead].result(ANSWER_S)

    def _leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Worker of the leader and number of in-sync replicas by partition; none without an
        answer."""
        with suppress(KafkaException):
            found = self._admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
            return {index: (one.leader - 1, len(one.isrs)) for index, one in found.items()}
        return {}

    def _leaders_in_sync(self, topic: str) -> dict[int, int]:
        """Worker of the leader by partition; empty until every partition has a leader and all its
        replicas in sync."""
        found = self._leaders(topic)
        if any(worker < 0 or in_sync < len(self._dirs) for worker, in_sync in found.values()):
            return {}
        return {partition: worker for partition, (worker, _) in found.items()}

    def _is_ahead(self, worker: int, partition: int) -> bool:
        """Whether the log of a leader is longer than its follower's."""
        return self._bytes(worker, partition) > self._bytes(1 - worker, partition)

    def _write_ahead(self, partitions: list[int]) -> None:
        """Records that only a leader has to have, each in a segment of its own. What the load sends
        waits for the follower: it is one batch at most."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "acks": 1, "log_level": 0})
        for _ in range(AHEAD):
            for partition in partitions:
                producer.produce(self._ahead, b"ahead", partition=partition)
            producer.flush(ANSWER_S)
            time.sleep(LOOK_S)
        producer.purge()

    def _bytes(self, worker: int, partition: int) -> int:
        folder = self._dirs[worker] / f"{self._topic}-{partition}"
        return sum(path.stat().st_size for path in folder.glob("*.log"))

    def _is_replaced(self, worker: int, pid: int) -> bool:
        """Whether a killed worker has a successor that opens its logs, and no partition has its
        leader there any more."""
        successor = self._broker.children().get(_title(worker))
        if successor is None or successor.pid == pid:
            return False
        folder = f"{self._dirs[worker]}/{self._topic}-"
        if not any(file.path.startswith(folder) for file in successor.open_files()):
            return False  # the slot of the dead process is still there, and its log is copied
        found = self._leaders(self._topic)
        return bool(found) and all(leader == 1 - worker for leader, _ in found.values())


def _title(worker: int) -> str:
    return f"kbroker: io {worker}"
