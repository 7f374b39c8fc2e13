"""Compacted and transactional logs go from Apache Kafka to kbroker and back: both read, extend and
compact them."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import (
    Producer,
)
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.log import files
from tests.compat.reading import read
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
KEYS = 20
FEW = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
EAGER = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "500", **FEW}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100000",
}


class Work:
    """One round of records into both topics, and what must be read afterwards."""

    def __init__(self) -> None:
        self.latest: dict[str, str | None] = {}
        self.committed: list[str] = []
        self._number = 0

    def create(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic("compacted", 1, 1, config=COMPACTED), NewTopic("transactional", 1, 1)]
        for future in admin.create_topics(topics).values():
            future.result(120)

    def add(self, bootstrap: str, leave_open: bool) -> None:
        """Updates and tombstones over three segments' time; three transactions, and one that is
        left open."""
        plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for _ in range(3):
            for key in range(KEYS):
                self._number += 1
                value = None if self._number % 13 == 0 else f"v{self._number}"
                self.latest[f"k{key}"] = value
                plain.produce("compacted", value, f"k{key}", partition=0)
            assert plain.flush(120) == 0
            time.sleep(0.6)  # segment.ms: the next batch begins a new segment
        plain.produce("compacted", "end", "end", partition=0)
        self.latest["end"] = "end"
        assert plain.flush(120) == 0
        self.transactions(bootstrap, leave_open)

    def transactions(self, bootstrap: str, leave_open: bool) -> None:
        """Committed, aborted, committed, and perhaps one that stays open."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "travels", "linger.ms": 0})
        producer.init_transactions(120)
        for commit in (True, False, True):
            producer.begin_transaction()
            values = [f"{'c' if commit else 'a'}{self._number}-{n}" for n in range(5)]
            self._number += 1
            for value in values:
                producer.produce("transactional", value, partition=0)
            assert producer.flush(120) == 0
            if commit:
                producer.commit_transaction(60)
                self.committed += values
            else:
                producer.abort_transaction(60)
        if leave_open:  # the broker that runs next ends it when the producer comes back
            producer.begin_transaction()
            producer.produce("transactional", "never", partition=0)
            assert producer.flush(120) == 0

    def check(self, bootstrap: str) -> None:
        """Both topics hold what they must, for a read_committed reader."""
        latest: dict[str, str | None] = {}
        for message in read(bootstrap, "compacted"):
            key, value = message.key(), message.value()
            latest[(key or b"").decode()] = None if value is None else value.decode()
        expected = {key: value for key, value in self.latest.items() if value is not None}
        assert {key: value for key, value in latest.items() if value is not None} == expected
        found = [(message.value() or b"").decode() for message in read(bootstrap, "transactional")]
        assert found == self.committed


def until_compacted(log_dir: Path) -> None:
    """The cleaner has been over everything but the last segment."""
    checkpoint = log_dir / files.CLEANER_OFFSETS
    newest = max(files.base_offset_of(path.name) or 0 for path in (log_dir / "compacted-0").glob("*.log"))
    deadline = time.monotonic() + 120
    while True:
        text = checkpoint.read_text() if checkpoint.exists() else ""
        if (found := re.search(r"^compacted 0 (\d+)$", text, re.MULTILINE)) and int(found[1]) >= newest:
            return
        assert time.monotonic() < deadline, (text, newest)
        time.sleep(0.1)


def dump_is_clean(log_dir: Path) -> None:
    """DumpLogSegments reads every file of every log, and reports nothing but offsets that
    compaction took."""
    suffixes = (files.LOG, files.INDEX, files.TIME_INDEX, files.TXN_INDEX, files.SNAPSHOT)
    for topic, options in (
        ("compacted", ()),
        ("transactional", ()),
        ("__transaction_state", ("--transaction-log-decoder",)),
    ):
        names = [
            str(path)
            for folder in sorted(log_dir.glob(f"{topic}-[0-9]"))
            for path in sorted(folder.iterdir())
            if path.suffix in suffixes
        ]
        assert names, topic
        done = run_tool(DUMP, "--deep-iteration", *options, "--files", ",".join(names))
        gaps = r"Non-consecutive offsets in \S+\n(  -?\d+ is followed by \d+\n)+"
        assert re.sub(gaps, "", done.stderr) == "", topic
        assert "isvalid: false" not in done.stdout


def test_logs_travel_from_kafka_to_kbroker_and_back(kafka_jars: str, tmp_path: Path) -> None:
    work = Work()
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.start(EAGER)
    try:
        work.create(kafka.bootstrap)
        work.add(kafka.bootstrap, leave_open=True)
        until_compacted(kafka.log_dir)
    finally:
        kafka.stop()
    dump_is_clean(kafka.log_dir)

    node = KBroker(tmp_path / "kbroker", {"log.dirs": str(kafka.log_dir), **EAGER})
    node.start()
    try:
        work.add(node.bootstrap, leave_open=True)
        until_compacted(kafka.log_dir)
        _end_the_open_one(node.bootstrap)
        work.check(node.bootstrap)
        work.transactions(node.bootstrap, leave_open=True)
    finally:
        node.stop()
    dump_is_clean(kafka.log_dir)

    kafka.start()
    try:
        work.add(kafka.bootstrap, leave_open=False)
        until_compacted(kafka.log_dir)
        work.check(kafka.bootstrap)
    finally:
        kafka.stop()
    dump_is_clean(kafka.log_dir)


def _end_the_open_one(bootstrap: str) -> None:
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "travels"}).init_transactions(120)
