"""What is written for Apache Kafka is what the store holds, and reads back as that."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.kraft.export import NEWEST, RELEASES, ExportError, sample_properties
from kbroker.control.kraft.records import FeatureLevelRecord
from kbroker.control.kraft.snapshot import KRAFT_VERSION, KRAFT_VOTERS, build
from kbroker.control.metadata import kafka_metadata as km
from kbroker.control.metadata.config_resource import BROKER, GROUP, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.log import files
from kbroker.protocol.records import NewRecord, build_batch, read_batches
from tests.control.fakes import World, world
from tests.control.kraft.fill import ACL, CREDENTIAL, ENTITY, TOKEN, exported, fill


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
        assert f"log.dirs={','.join(made.dirs)}" in sample_properties(done, made.dirs, 1).splitlines()


def test_an_earlier_kafka_gets_the_features_that_it_knows(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        exported(made, "3.9")
        assert read(made).features == {"metadata.version": 21}
        exported(made, "4.0")
        assert read(made).features == RELEASES["4.0"]


def test_a_metadata_log_of_kafkas_is_replaced_and_its_voters_stay(tmp_path: Path) -> None:
    voters: list[NewRecord] = [
        (bytes((0, 0, 0, KRAFT_VERSION)), b"v", (), 1),
        (bytes((0, 0, 0, KRAFT_VOTERS)), b"w", (), 1),
    ]
    with world(tmp_path) as made:
        folder = Path(made.dirs[0], km.FOLDER)
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


def test_what_one_kafka_node_can_not_hold_is_refused(tmp_path: Path) -> None:
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))
    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 1, 2)]))
        with pytest.raises(ExportError, match="several replicas"):
            exported(made)
        made.dirs = made.dirs[:1]
        with pytest.raises(ExportError, match=r"not named: .*d1"):
            exported(made)


def test_an_unreadable_metadata_log_is_kept(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        folder = Path(made.dirs[0], km.FOLDER)
        folder.mkdir()
        damaged = folder / "00000000000000000040-0000000006.checkpoint"
        damaged.write_bytes(b"\0" * 100)
        with pytest.raises(ExportError, match="cannot be read"):
            exported(made)
        assert damaged.exists()
