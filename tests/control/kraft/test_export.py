"""What is written for Apache Kafka is what the store holds, and reads back as that."""

import asyncio
import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.kraft import export as module
from kbroker.control.kraft import records as kr
from kbroker.control.kraft.export import NEWEST, RELEASES, ExportError, is_own, portable, release_of
from kbroker.control.kraft.metadata_folder import FOLDER, MARK, UnreadableMetadata, fingerprint
from kbroker.control.kraft.records import FeatureLevelRecord
from kbroker.control.kraft.snapshot import KRAFT_VERSION, KRAFT_VOTERS, SnapshotId, build
from kbroker.control.metadata import kafka_metadata as km
from kbroker.control.metadata.config_resource import BROKER, GROUP, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import Change
from kbroker.log import files
from kbroker.protocol.records import NewRecord, build_batch, read_batches
from kbroker.protocol.schema import Struct
from tests.control.fakes import World, world
from tests.control.kraft.fill import ACL, CREDENTIAL, ENTITY, TOKEN, directory_id, exported, fill


def read(made: World) -> km.KafkaMetadata:
    found = km.read(made.dirs)
    assert found is not None
    return found


def test_everything_reads_back_but_what_only_kbroker_knows(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        fill(made)
        done = exported(made)
        found = read(made)
        topics = made.broker.catalogue.topics
        assert found.topics == {name: topic.topic_id for name, topic in topics.items()}
        assert found.configs[TOPIC, "orders"] == {"retention.ms": "7"}
        assert found.configs[BROKER, ""] == {"log.retention.ms": "77", "min.insync.replicas": "1"}
        assert found.configs[GROUP, "g"] == {"consumer.session.timeout.ms": "50000"}
        assert found.quotas == {ENTITY: {"producer_byte_rate": 5.5}}
        assert found.scram == {("ann", 1): CREDENTIAL}
        assert found.tokens == {TOKEN.token_id: TOKEN}
        assert list(found.acls.values()) == [ACL]
        assert found.next_producer_id == 1000
        assert found.features == {k: v for k, v in RELEASES[NEWEST].items() if k != "kraft.version"}
        assert done.left_out == ("g: errors.deadletterqueue.topic.name", "orders: write.caching")
        assert (done.topics, done.partitions) == (2, 4)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Struct]:
    """The records of the last snapshot that was built."""
    found: list[Struct] = []

    def noting(messages: Iterable[Struct], *rest: Any) -> bytes:
        found[:] = messages
        return build(found, *rest)

    monkeypatch.setattr(module, "build", noting)
    return found


def test_each_partition_is_where_its_log_is_with_the_epoch_that_it_had(
    tmp_path: Path, written: list[Struct]
) -> None:
    with world(tmp_path, dirs=2) as made:
        fill(made)
        store = made.broker.stores.first
        changed = next(topic for topic in store.load().topics if topic.name == "orders").partitions[1]
        changed.leader_epoch = 7
        store.apply(Change(led_partitions=[changed]))
        done = exported(made)
        numbers = {log_dir: number for number, log_dir in enumerate(made.dirs)}
        partitions = {
            (topic.topic_id, part.index): (part.leader_epoch, [directory_id(numbers[part.log_dir])])
            for topic in store.load().topics
            for part in topic.partitions
        }
        assert {one for _, (one,) in partitions.values()} == {directory_id(0), directory_id(1)}
        found = [record for record in written if isinstance(record, kr.PartitionRecord)]
        assert {
            (one.topic_id, one.partition_id): (one.leader_epoch, one.directories) for one in found
        } == partitions
        assert {(*one.replicas, *one.isr, one.leader) for one in found} == {(1, 1, -1)}
        (broker,) = (record for record in written if isinstance(record, kr.RegisterBrokerRecord))
        assert (broker.broker_id, broker.fenced, broker.broker_epoch) == (1, True, done.broker_epoch)
        assert done.snapshot.name == SnapshotId(done.broker_epoch, 1).file_name
        assert sorted(broker.log_dirs) == [directory_id(0), directory_id(1)]


def test_the_format_of_the_metadata_comes_first_and_levels_are_those_in_force(
    tmp_path: Path, written: list[Struct]
) -> None:
    with world(tmp_path) as made:
        made.broker.stores.first.apply(
            Change(features={"group.version": 0, "transaction.version": 1, "metadata.version": 20})
        )
        exported(made)
        levels = [(one.name, one.feature_level) for one in written if isinstance(one, FeatureLevelRecord)]
        assert written[0] == FeatureLevelRecord("metadata.version", 20)
        assert dict(levels)["transaction.version"] == 1
        assert "group.version" not in dict(levels)
        exported(made, "3.9")
        assert written[0] == FeatureLevelRecord("metadata.version", 20)


def test_producer_ids_that_kafka_gave_out_are_not_given_out_again(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        folder = Path(made.dirs[0], FOLDER)
        folder.mkdir()
        (folder / SnapshotId(40, 6).file_name).write_bytes(
            build([FeatureLevelRecord("metadata.version", 25), kr.ProducerIdsRecord(1, -1, 5000)], (), 6, 1)
        )
        exported(made)
        assert read(made).next_producer_id == 5000


def test_an_export_is_not_taken_for_a_change_of_kafkas(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        store = made.broker.stores.first
        done = exported(made)
        mark = store.meta(MARK, "")
        assert mark == fingerprint(made.dirs) == f"{done.snapshot.name}:{done.snapshot.stat().st_size}"
        (done.snapshot.parent / "quorum-state").write_text("{}")
        assert fingerprint(made.dirs) == mark, "a file that says nothing of the metadata"
        Path(files.path(str(done.snapshot.parent), 1, files.LOG)).touch()
        assert fingerprint(made.dirs) != mark


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("kbroker.replica.sites", True),
        ("confluent.value.schema.validation", True),
        ("write.caching", True),
        ("errors.deadletterqueue.topic.name", True),
        ("retention.ms", False),
    ],
)
def test_settings_that_kafka_does_not_know(name: str, own: bool) -> None:
    assert is_own(name) is own


def test_a_backup_holds_everything_and_each_partition_once(tmp_path: Path, written: list[Struct]) -> None:
    with world(tmp_path, dirs=2) as made:
        fill(made)
        directory = base64.urlsafe_b64encode(directory_id(9)).decode()[:22]
        assert portable(made.broker.stores.first, 3, directory, NEWEST, 5)
        parts = [record for record in written if isinstance(record, kr.PartitionRecord)]
        assert len(parts) == 4
        assert {(*one.replicas, *one.directories) for one in parts} == {(3, directory_id(9))}
        assert kr.ProducerIdsRecord(3, -1, 1000) in written
        assert kr.ConfigRecord(TOPIC, "orders", "write.caching", "false") in written
        assert not any(isinstance(record, kr.RegisterBrokerRecord) for record in written)


def test_an_earlier_kafka_gets_the_features_that_it_knows(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        exported(made, "3.9")
        assert read(made).features == {"metadata.version": 21}
        exported(made, "4.0")
        assert read(made).features == RELEASES["4.0"]


@pytest.mark.parametrize(
    ("level", "release"),
    [(7, "3.9"), (21, "3.9"), (24, "3.9"), (25, "4.0"), (27, "4.1"), (29, "4.2"), (30, "4.3"), (99, "4.3")],
)
def test_the_release_of_a_metadata_log_is_the_newest_that_its_level_allows(level: int, release: str) -> None:
    assert release_of({"metadata.version": level, "group.version": 1}) == release


def test_the_release_without_a_level_is_the_newest() -> None:
    assert release_of({}) == release_of({"group.version": 1}) == NEWEST


@pytest.mark.parametrize(("level", "release"), [(None, NEWEST), (21, "3.9"), (25, "4.0"), (28, "4.1")])
def test_an_export_without_a_release_is_for_that_of_the_metadata_log(
    tmp_path: Path, level: int | None, release: str
) -> None:
    with world(tmp_path) as made:
        if level is not None:
            folder = Path(made.dirs[0], FOLDER)
            folder.mkdir()
            written = build([FeatureLevelRecord("metadata.version", level)], (), 1, 1)
            (folder / SnapshotId(40, 1).file_name).write_bytes(written)
        for _ in range(2):  # the second reads what the first wrote
            assert exported(made, None).release == release
            levels = {k: v for k, v in RELEASES[release].items() if k != "kraft.version"}
            assert read(made).features == levels


def test_a_metadata_log_of_kafkas_is_replaced_and_its_voters_stay(tmp_path: Path) -> None:
    voters: list[NewRecord] = [
        (bytes((0, 0, 0, KRAFT_VERSION)), b"v", (), 1),
        (bytes((0, 0, 0, KRAFT_VOTERS)), b"w", (), 1),
    ]
    with world(tmp_path) as made:
        folder = Path(made.dirs[0], FOLDER)
        folder.mkdir()
        old = folder / "00000000000000000040-0000000006.checkpoint"
        old.write_bytes(build([FeatureLevelRecord("metadata.version", 25)], voters, 6, 1))
        left = Path(files.path(str(folder), 40, files.LOG))
        left.write_bytes(
            build_batch([(None, b"\x01\x14\x00\x00", (), 1)], base_offset=40, partition_leader_epoch=7)
        )
        (folder / "quorum-state").write_text("{}")
        done = exported(made)
        assert done.snapshot.name == "00000000000000000042-0000000007.checkpoint"
        assert sorted(path.name for path in folder.iterdir()) == [done.snapshot.name, "quorum-state"]
        found = read(made)
        assert [found.voters[kind] for kind in sorted(found.voters)] == voters
        assert (found.end.end_offset, found.end.epoch) == (42, 7)


def test_a_snapshot_of_many_records_is_complete_and_its_offsets_continue(tmp_path: Path) -> None:
    records = [FeatureLevelRecord(f"f{number}", 1) for number in range(1201)]
    batches = list(read_batches(build(records, [], 3, 1), whole=True))
    assert [batch.is_control for batch in batches] == [True, False, False, False, True]
    assert [batch.base_offset for batch in batches] == [0, 1, 501, 1001, 1202]
    assert {batch.partition_leader_epoch for batch in batches} == {3}


def test_topics_that_one_kafka_node_cannot_hold_are_refused(tmp_path: Path) -> None:
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))
    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 1, 2)]))
        with pytest.raises(ExportError, match="several replicas on this host: 1, the first is a-0"):
            exported(made)
        made.dirs = made.dirs[:1]
        with pytest.raises(ExportError, match=r"not named: .*d1"):
            exported(made)


@pytest.mark.parametrize("content", [b"\0" * 100, b"", build([], (), 6, 1)[:8], build([], (), 6, 1)[:-1]])
def test_an_unreadable_metadata_log_is_kept(tmp_path: Path, content: bytes) -> None:
    with world(tmp_path) as made:
        folder = Path(made.dirs[0], FOLDER)
        folder.mkdir()
        damaged = folder / "00000000000000000040-0000000006.checkpoint"
        damaged.write_bytes(content)
        with pytest.raises(UnreadableMetadata, match="cannot be read"):
            exported(made)
        assert damaged.read_bytes() == content
        assert [path.name for path in folder.iterdir()] == [damaged.name]
