"""A log dir moves in both directions: kbroker reads and continues a log of Apache Kafka, and Apache
Kafka continues it again."""

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from msgspec.structs import replace

from kbroker.control.metadata import adoption
from kbroker.io.files import meta_properties, producer_snapshot
from kbroker.io.files.log_dir import LogDir
from kbroker.log import checkpoint, files, transaction_index
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.timestamps import locate_timestamp, max_timestamp
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.log.walk import walk
from kbroker.protocol.records import read_records
from tests.io.append.plain_append import Log, topic_config
from tests.io.files.snapshot_bytes import encode
from tests.log.batch_bytes import batch
from tests.peer.apache_kafka import QUICK_START, ApacheKafka

pytestmark = pytest.mark.kafka

START = int(time.time() * 1000) - 3_600_000
TOPICS = {
    "plain": {"segment.bytes": "1048576", "index.interval.bytes": "1000"},
    "transactional": {},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    },
}
Seen = tuple[int, int, bytes | None, bytes | None]


@dataclass
class Written:
    """A stopped Apache Kafka, the records that its consumers saw, and its answers for offsets by
    time."""

    node: ApacheKafka
    uncommitted: dict[str, list[Seen]]
    committed: dict[str, list[Seen]]
    by_time: dict[str, dict[int, int]]
    latest: dict[str, tuple[int, int]]

    def folder(self, topic: str) -> Path:
        return self.node.log_dir / f"{topic}-0"


def consume(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Seen]:
    """Every record of partition 0 as (offset, timestamp, key, value)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Seen] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            break  # the end of the partition
        kind, timestamp = message.timestamp()
        found.append(
            (
                message.offset(),
                -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
                message.key(),
                message.value(),
            )
        )
    consumer.close()
    return found


def fill(node: ApacheKafka) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, 1, 1, config=dict(config)) for name, config in TOPICS.items()]
    ).values():
        future.result()
    chance = random.Random(1)
    for round_, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "compression.type": codec,
                "linger.ms": 5,
                "enable.idempotence": True,
                "message.timeout.ms": 30000,
            }
        )
        for n in range(600):
            when = START + round_ * 1000 + (n * 7919) % 900
            producer.produce("plain", chance.randbytes(1500), b"k%d" % n, 0, timestamp=when)
            if n % 40 == 0:
                producer.flush()
        producer.flush()
    for number in range(4):
        producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": f"t{number % 2}"})
        producer.init_transactions()
        for round_ in range(4):
            producer.begin_transaction()
            for n in range(5):
                producer.produce("transactional", b"v%d" % n, b"k%d.%d" % (number, round_), 0)
            producer.flush()
            producer.abort_transaction() if round_ % 2 else producer.commit_transaction()
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for n in range(3500):
        producer.produce("compacted", bytes(1000), b"key%d" % chance.randrange(300), 0)
        if n % 100 == 0:
            producer.flush()
    producer.flush()
    deadline = time.monotonic() + 120
    while len(consume(node.bootstrap, "compacted")) > 3000 and time.monotonic() < deadline:
        time.sleep(0.5)  # the log cleaner runs in the background


def by_time(node: ApacheKafka, topic: str, times: list[int]) -> dict[int, int]:
    """The answers of ListOffsets."""
    admin: Any = AdminClient({"bootstrap.servers": node.bootstrap})
    found = {}
    for when in times:
        partition = TopicPartition(topic, 0)
        found[when] = (
            admin.list_offsets({partition: OffsetSpec.for_timestamp(when)})[partition].result().offset
        )
    return found


def latest(node: ApacheKafka, topic: str) -> tuple[int, int]:
    partition = TopicPartition(topic, 0)
    admin: Any = AdminClient({"bootstrap.servers": node.bootstrap})
    found = admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].result()
    return found.timestamp, found.offset


@pytest.fixture(scope="module")
def written(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    node = ApacheKafka(tmp_path_factory.mktemp("kafka"), jvm=QUICK_START)
    node.start({"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"})
    try:
        fill(node)
        times = {"plain": [*range(START - 10, START + 5200, 97)], "compacted": [0], "transactional": [0]}
        for topic in ("compacted", "transactional"):
            seen = consume(node.bootstrap, topic)
            times[topic] = [0, seen[0][1], seen[len(seen) // 2][1], seen[-1][1], seen[-1][1] + 1]
        found = Written(
            node,
            {topic: consume(node.bootstrap, topic) for topic in TOPICS},
            {topic: consume(node.bootstrap, topic, "read_committed") for topic in TOPICS},
            {topic: by_time(node, topic, times[topic]) for topic in TOPICS},
            {topic: latest(node, topic) for topic in TOPICS},
        )
        node.stop()
        yield found
    finally:
        node.stop()


def read(folder: Path) -> list[Seen]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value)
        for placed in walk(LogReader(str(folder), OpenFiles()))
        if not placed.batch.is_control
        for record in read_records(placed.batch)
    ]


def aborted_by_segment(folder: Path) -> list[list[AbortedTransaction]]:
    return [
        transaction_index.read_index(str(folder), segment.base_offset)
        for segment in files.list_segments(str(folder))
    ]


def copied(written: Written, topic: str, root: Path) -> Log:
    """A partition over a copy of Apache Kafka's files."""
    config = TOPICS[topic]
    log = Log(
        root,
        topic_config(**{name.replace(".", "_"): value for name, value in config.items()}),
        now_ms=int(time.time() * 1000),
        topic=topic,
    )
    shutil.copytree(written.folder(topic), log.folder)
    return log


@pytest.mark.parametrize("topic", list(TOPICS))
def test_every_record_is_read_as_kafkas_consumer_saw_it(written: Written, topic: str) -> None:
    assert len(written.uncommitted[topic]) > 50
    assert read(written.folder(topic)) == written.uncommitted[topic]


def test_the_samples_are_what_they_are_meant_to_be(written: Written) -> None:
    assert len(files.list_segments(str(written.folder("plain")))) > 2
    compacted = [offset for offset, *_ in written.uncommitted["compacted"]]
    assert compacted[-1] - compacted[0] > len(compacted)  # gaps
    assert len(written.committed["transactional"]) < len(written.uncommitted["transactional"])


@pytest.mark.parametrize("topic", list(TOPICS))
def test_every_offset_is_located_gaps_included(written: Written, topic: str) -> None:
    reader = LogReader(str(written.folder(topic)), OpenFiles())
    batches = [placed.batch for placed in walk(reader)]
    for offset in range(0, batches[-1].last_offset + 2, 3):
        want = next((b for b in batches if b.last_offset >= offset), None)
        place = reader.locate(offset, *WHOLE_LOG)
        assert (place.base_offset if place else None) == (want.base_offset if want else None)


@pytest.mark.parametrize("topic", list(TOPICS))
def test_offsets_by_time_are_kafkas(written: Written, topic: str) -> None:
    """With one exception: Apache Kafka takes the age of an empty first segment, as compaction
    leaves it, from its file, and answers -1 although later segments have the offset."""
    reader = LogReader(str(written.folder(topic)), OpenFiles())
    emptied = written.folder(topic).joinpath(f"{0:020d}.log").stat().st_size == 0
    for when, offset in written.by_time[topic].items():
        if emptied and offset == -1 and when <= written.latest[topic][0]:
            continue
        found = locate_timestamp(reader, when, 0, *WHOLE_LOG)
        assert (found.offset if found else -1) == offset, when
    found = max_timestamp(reader, 0, *WHOLE_LOG)
    assert found is not None
    assert (found.timestamp, found.offset) == written.latest[topic]


def test_aborted_transactions_are_known(written: Written) -> None:
    folder = written.folder("transactional")
    reader = LogReader(str(folder), OpenFiles())
    end = written.uncommitted["transactional"][-1][0] + 2
    aborted = aborted_transactions(reader, 0, end)
    hidden = {seen[0] for seen in written.uncommitted["transactional"]} - {
        seen[0] for seen in written.committed["transactional"]
    }
    assert len(aborted) == 8
    producers = {
        record.offset: placed.batch.producer_id
        for placed in walk(reader)
        for record in read_records(placed.batch)
    }
    covered = {
        offset
        for offset in hidden
        if any(
            a.first_offset <= offset < a.last_offset and producers[offset] == a.producer_id for a in aborted
        )
    }
    assert covered == hidden


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_partition_opens_what_kafka_wrote(
    written: Written, tmp_path: Path, topic: str, clean: bool
) -> None:
    log = copied(written, topic, tmp_path)
    source = written.folder(topic)
    newest = files.list_snapshots(str(source))[-1]
    state = {entry.producer_id: entry for entry in producer_snapshot.read(str(source), newest)}
    aborted = aborted_by_segment(source)
    if not clean:  # their contents must be rebuilt from the batches
        for suffix in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
            for path in log.folder.glob(suffix):
                path.unlink()
        (log.folder / files.LEADER_EPOCH_CHECKPOINT).unlink()
    log.bring_online(log.load(clean))
    batches = [placed.batch for placed in walk(LogReader(str(source), OpenFiles()))]
    assert log.partition.log_end == batches[-1].last_offset + 1 == newest
    assert {entry.producer_id: entry for entry in log.producers.entries(3)}.keys() == state.keys()
    for entry in log.producers.entries(3):
        known = state[entry.producer_id]
        kept = tuple(replace(last, timestamp=known.last_timestamp) for last in entry.batches[-1:])
        assert replace(entry, batches=kept) == known  # a snapshot has no timestamp of the batch itself
    if clean or topic != "compacted":  # the first batch of a compacted log may begin after the epoch's start
        assert checkpoint.read_leader_epochs(str(log.folder)) == checkpoint.read_leader_epochs(str(source))
    log.partition.close()
    assert read(log.folder) == written.uncommitted[topic]
    assert [
        transaction_index.read_index(str(log.folder), s.base_offset)
        for s in files.list_segments(str(log.folder))
    ] == aborted
    if topic != "compacted":  # the cleaner writes index entries in larger steps
        for suffix in (".index", ".timeindex"):
            for segment in files.list_segments(str(source)):
                name = files.file_name(segment.base_offset, suffix)
                assert (log.folder / name).read_bytes() == (source / name).read_bytes(), name


def test_snapshots_are_kafkas_byte_for_byte(written: Written) -> None:
    for topic in TOPICS:
        for path in written.folder(topic).glob("*.snapshot"):
            assert encode(producer_snapshot.decode(path.read_bytes())) == path.read_bytes()


def test_the_log_dirs_files_are_read(written: Written) -> None:
    log_dir = LogDir(str(written.node.log_dir))
    found = {(one.topic, one.index) for one in adoption.scan([log_dir.path])}
    assert {("plain", 0), ("transactional", 0), ("compacted", 0)} <= found
    assert not [topic for topic, _ in found if topic == "__cluster_metadata"]
    assert log_dir.recovery_points()["plain", 0] == written.uncommitted["plain"][-1][0] + 1
    properties = meta_properties.read(log_dir.path)
    assert properties is not None
    assert properties.node_id == 1
    assert len(properties.directory_id) == 22
    assert checkpoint.read_topic_id(str(written.folder("plain"))) is not None
    assert (written.node.log_dir / files.CLEAN_SHUTDOWN).exists()


def test_kafka_continues_a_partition_after_appends(written: Written, tmp_path: Path) -> None:
    """The last test of the module, as it changes the folder."""
    log = Log(
        written.node.log_dir,
        topic_config(segment_bytes=4096, index_interval_bytes=500),
        now_ms=int(time.time() * 1000),
        topic="plain",
    )
    assert log.folder == written.folder("plain")
    log.bring_online(log.load(clean=True))
    before = written.uncommitted["plain"]
    added: list[Seen] = []
    for n in range(40):
        when, value = log.now_ms + n, b"new%d" % n * 50
        offset = log.append(batch(0, [value], [when], producer_id=5000, producer_epoch=0, base_sequence=n))
        added.append((offset, when, None, value))
    log.partition.close()
    written.node.start()
    try:
        assert consume(written.node.bootstrap, "plain") == [*before, *added]
        when = added[20][1]
        assert by_time(written.node, "plain", [when]) == {when: added[20][0]}
        producer = Producer({"bootstrap.servers": written.node.bootstrap, "enable.idempotence": True})
        producer.produce("plain", b"from Kafka", partition=0)
        assert producer.flush(120) == 0
    finally:
        written.node.stop()
    seen = read(written.folder("plain"))
    assert seen[: len(before) + len(added)] == [*before, *added]
    assert (seen[-1][0], seen[-1][3]) == (added[-1][0] + 1, b"from Kafka")
    assert "orrupt" not in written.node.logs(1_000_000)
