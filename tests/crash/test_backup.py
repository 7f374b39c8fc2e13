"""Backups of a broker under load, killed at random moments: each restores every record acknowledged
before it."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.compat.reading import read
from tests.conftest import BrokerFactory
from tests.crash.backup_load import (
    PARTITIONS,
    RECORD_BYTES,
    SEGMENT_BYTES,
    SMALL,
    Load,
    command,
    judge,
    kill_at_random,
    restored,
    run,
    values,
)
from tests.crash.load import watermarks
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import ROOT
from tests.peer.side_work import Beside

KILLS = int(os.environ.get("KBROKER_KILLS", "6"))
pytestmark = [pytest.mark.crash, pytest.mark.timeout(600 + 30 * KILLS)]

EAGER = {
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
}


def test_a_backup_under_load_and_kills_restores_what_was_acknowledged(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    source = broker_factory(
        {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    )
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    topics = [NewTopic("plain", PARTITIONS, 1, config=SMALL), NewTopic("left", 1, 1), NewTopic("right", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(120)
    load, dest, chance = Load(source.bootstrap), tmp_path / "backups", random.Random(21)
    load.start()
    try:
        load.wait_for_records(2 * SEGMENT_BYTES // RECORD_BYTES)  # or a backup is all start
        started = time.monotonic()
        first = json.loads(run("backup", str(dest), "--bootstrap", source.bootstrap, "--json"))
        took = time.monotonic() - started
        kill_at_random(source.bootstrap, dest, chance, took, KILLS)
        acknowledged, committed = dict(load.acknowledged), load.committed
        run("backup", str(dest), "--bootstrap", source.bootstrap)
        load.wait_for_records()  # what comes after the point is not in it
    finally:
        load.stop()
    run("backups", "verify", str(dest))
    assert len(json.loads(run("backups", "list", str(dest), "--json"))) >= 2
    judge(restored(broker_factory, dest, tmp_path / "last").bootstrap, acknowledged, committed)

    run("restore", str(dest), str(tmp_path / "first"), "--to", first["time"], "--topic", "plain")
    early = broker_factory({"log.dirs": str(tmp_path / "first")})
    assert "left" not in AdminClient({"bootstrap.servers": early.bootstrap}).list_topics(timeout=60).topics
    counts = [values(early.bootstrap, "plain", partition) for partition in range(PARTITIONS)]
    assert all(found == list(range(len(found))) for found in counts)
    assert 0 < sum(map(len, counts)) < sum(acknowledged.values())

    run("backups", "prune", str(dest), "--keep", "1", "--yes")
    run("backups", "verify", str(dest))
    run("restore", str(dest), str(tmp_path / "pruned"))
    victim = max((dest / "objects").glob("*/*"), key=lambda path: path.stat().st_size)
    with open(victim, "r+b") as damaged:
        damaged.write(b"\xff")
    for words in (("backups", "verify", str(dest)), ("restore", str(dest), str(tmp_path / "damaged"))):
        done = subprocess.run(command(*words), capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 1
        assert "checksum" in done.stderr + done.stdout
    assert not (tmp_path / "damaged").exists()


class Writer(Beside):
    """Writes to a compacted topic and to one of short retention until it is stopped, in a
    thread."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.latest: dict[bytes, int] = {}
        self.written = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def _work(self) -> None:
        while not self._stop.is_set():
            for _ in range(100):
                value, key = b"%08d" % self.written + b"y" * 900, b"k%d" % (self.written % 50)
                self._producer.produce("compacted", value, key=key)
                self._producer.produce("short", value)
                self.latest[key] = self.written
                self.written += 1
            assert self._producer.flush(120) == 0
            time.sleep(0.02)


def test_a_backup_of_compacted_and_shortened_logs_is_complete(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """The cleaner replaces segments and retention removes them while they are copied."""
    source = broker_factory(EAGER)
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
        "write.caching": "true",
    }
    short = {"segment.bytes": "1048576", "retention.bytes": "3000000"}
    for future in admin.create_topics(
        [NewTopic("compacted", 1, 1, config=compacted), NewTopic("short", 1, 1, config=short)]
    ).values():
        future.result(120)
    dest = tmp_path / "backups"
    reader = Consumer({"bootstrap.servers": source.bootstrap, "group.id": "none"})
    with Writer(source.bootstrap) as writer:
        eventually(lambda: watermarks(reader, TopicPartition("short", 0))[0] > 0)
        for _ in range(3):
            run("backup", str(dest), "--bootstrap", source.bootstrap)
    reader.close()
    run("backup", str(dest), "--bootstrap", source.bootstrap)
    copy = restored(broker_factory, dest, tmp_path / "restored")
    found = {
        message.key(): int((message.value() or b"")[:8]) for message in read(copy.bootstrap, "compacted")
    }
    assert found == writer.latest
    tail = values(copy.bootstrap, "short")
    assert tail[-1] == writer.written - 1
    assert tail == list(range(tail[0], writer.written))
    assert tail[0] > 0, "retention has removed nothing: the test shows nothing"
    described = config_of(copy.bootstrap, "compacted")
    assert described["write.caching"] == "true"
    assert described["segment.bytes"] == "1048576"


def config_of(bootstrap: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_configs([resource])[resource].result(120)
    return {name: entry.value for name, entry in found.items()}
