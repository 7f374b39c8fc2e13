"""Log dirs that come back from Apache Kafka: its changes hold, and only what it changed is
changed."""

import asyncio
import base64
import shutil
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.kraft import records as kr
from kbroker.control.kraft.export import NEWEST, portable
from kbroker.control.kraft.import_metadata import _usable
from kbroker.control.kraft.metadata_folder import FOLDER, unseen_topics
from kbroker.control.kraft.records import framed
from kbroker.control.kraft.snapshot import SnapshotId, build
from kbroker.control.metadata import kafka_metadata as km
from kbroker.control.metadata.config_resource import BROKER, GROUP, TOPIC
from kbroker.control.store.change import Change, Stored
from kbroker.control.store.store import StoreError
from kbroker.log import files
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.control.changes.deleted_folders import mark_folder
from tests.control.fakes import World, world
from tests.control.kraft.fill import ACL, CREDENTIAL, ENTITY, TOKEN, directory_id, exported, fill


def all_but_topics(state: Stored) -> tuple[object, ...]:
    """A loaded store, without its topics."""
    return state.configs, state.client_quotas, state.scram, state.tokens, state.acls


def kafka_runs(made: World, *records: Struct, offset: int = 1) -> None:
    """Apache Kafka starts on the log dirs, writes records into its metadata log, and stops."""
    values = [framed(record) for record in records] or [b"\x01\x14\x00\x00"]
    batch = build_batch(
        [(None, value, (), 1) for value in values], base_offset=offset, partition_leader_epoch=2
    )
    Path(files.path(f"{made.dirs[0]}/{FOLDER}", offset, files.LOG)).write_bytes(batch)


def grow(made: World, name: str, topic_id: bytes, epoch: int = 0) -> None:
    """Kafka makes a partition, or leads one in a new epoch."""
    folder = Path(made.dirs[0], name)
    folder.mkdir(exist_ok=True)
    text = base64.urlsafe_b64encode(topic_id).decode()[:22]
    (folder / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")
    (folder / files.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n1\n{epoch} 0\n")


def with_ids(made: World) -> None:
    """The fake IO workers write no partition.metadata."""
    for topic in made.broker.catalogue.topics.values():
        for partition in topic.partitions:
            grow(made, f"{topic.name}-{partition.index}", topic.topic_id)


def test_a_password_that_is_ignored_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    configs = {"ssl.key.password": "secret-1", "my.plugin.key": "secret-2", "log.retention.ms": "x-3"}
    config = BrokerConfig({"log.dirs": "/d"})
    assert _usable((BROKER, ""), configs, config) == {"my.plugin.key": "secret-2"}
    assert "config ssl.key.password of all brokers is ignored" in caplog.text
    assert "config log.retention.ms=x-3 of all brokers is ignored" in caplog.text
    assert "secret" not in caplog.text


def test_nothing_changes_when_kafka_has_not_run(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        before = made.broker.stores.first.load()
        shutil.rmtree(Path(made.dirs[0], "doomed-0"))
        made.reboot()
        after = made.broker.stores.first.load()
        assert [topic.name for topic in after.topics] == [topic.name for topic in before.topics]
        assert all_but_topics(after) == all_but_topics(before)


def test_a_run_without_a_change_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        before = made.broker.stores.first.load()
        kafka_runs(made)
        made.reboot()
        after = made.broker.stores.first.load()
        assert len(after.topics) == 2
        assert all_but_topics(after) == all_but_topics(before)


def test_damaged_metadata_changes_nothing_until_it_is_repaired(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        before = made.broker.stores.first.load()
        snapshot = exported(made).snapshot
        whole = snapshot.read_bytes()
        snapshot.write_bytes(whole[:-1])
        with pytest.raises(StoreError, match="cannot be read"):
            made.reboot()
        snapshot.write_bytes(whole)
        made.reboot()
        after = made.broker.stores.first.load()
        assert {topic.name for topic in after.topics} == {topic.name for topic in before.topics}
        assert all_but_topics(after) == all_but_topics(before)


def test_the_changes_of_kafka_are_taken_over(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        orders, doomed = (made.broker.catalogue.topics[name].topic_id for name in ("orders", "doomed"))
        found = km.read(made.dirs)
        assert found is not None
        (acl_id,) = found.acls
        kafka_runs(
            made,
            kr.RemoveTopicRecord(doomed),
            kr.ConfigRecord(TOPIC, "orders", "retention.ms", "8"),
            kr.ConfigRecord(TOPIC, "orders", "flush.ms", "9"),
            kr.ConfigRecord(BROKER, "", "log.retention.ms", None),
            kr.ConfigRecord(BROKER, "", "listeners", "PLAINTEXT://:1"),
            kr.ConfigRecord(GROUP, "h", "consumer.heartbeat.interval.ms", "6000"),
            kr.TopicRecord("new", b"n" * 16),
            kr.ConfigRecord(TOPIC, "new", "retention.ms", "10"),
            kr.ClientQuotaRecord(
                [kr.QuotaEntity(*part) for part in ENTITY], "producer_byte_rate", 0, remove=True
            ),
            kr.ClientQuotaRecord([kr.QuotaEntity("user", "bob")], "consumer_byte_rate", 3.0),
            kr.RemoveUserScramCredentialRecord("ann", 1),
            kr.UserScramCredentialRecord("bob", 2, *CREDENTIAL),
            kr.RemoveAccessControlEntryRecord(acl_id),
            kr.AccessControlEntryRecord(b"a" * 16, *ACL._replace(principal="User:bob")),
            kr.ProducerIdsRecord(1, 7, 5000),
        )
        shutil.rmtree(Path(made.dirs[0], "doomed-0"))
        grow(made, "new-0", b"n" * 16)
        grow(made, "orders-3", orders)
        grow(made, "orders-0", orders, epoch=12)
        broker = made.reboot()
        assert set(broker.catalogue.topics) == {"orders", "new"}
        assert len(broker.catalogue.topics["orders"].partitions) == 4
        assert broker.catalogue.topics["orders"].partitions[0].leader_epoch > 12
        assert broker.override(TOPIC, "orders") == {
            "retention.ms": "8",
            "flush.ms": "9",
            "write.caching": "false",
        }
        assert broker.override(TOPIC, "new") == {"retention.ms": "10"}
        assert broker.override(BROKER, "") == {"min.insync.replicas": "1"}
        assert broker.override(GROUP, "h") == {"consumer.heartbeat.interval.ms": "6000"}
        stored = broker.stores.first.load()
        assert stored.client_quotas == {(("user", "bob"),): {"consumer_byte_rate": 3.0}}
        assert stored.acls == [ACL._replace(principal="User:bob")]
        assert stored.scram == {("bob", 2): CREDENTIAL}
        assert broker.stores.first.allocate_producer_ids(1) >= 5000


def test_tokens_that_kafka_made_and_removed_hold(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        new = kr.DelegationTokenRecord("User:cid", "User:cid", ["User:dan"], 1, 3, 2, "new")
        kafka_runs(made, kr.RemoveDelegationTokenRecord(TOKEN.token_id), new)
        stored = made.reboot().stores.first.load()
        assert list(stored.tokens.values()) == [("new", "User:cid", "User:cid", ("User:dan",), 1, 3, 2)]


def test_a_topic_recreated_in_kafka_is_another_one(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        old = made.broker.catalogue.topics["doomed"].topic_id
        kafka_runs(made, kr.RemoveTopicRecord(old), kr.TopicRecord("doomed", b"2" * 16))
        grow(made, "doomed-0", b"2" * 16)
        assert made.reboot().catalogue.topics["doomed"].topic_id == b"2" * 16


def test_data_that_kafka_does_not_know_is_kept(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        with_ids(made)
        exported(made)
        kafka_runs(made, kr.RemoveTopicRecord(made.broker.catalogue.topics["doomed"].topic_id))
        assert "doomed" in made.reboot().catalogue.topics


def test_a_partition_that_kafka_moved_is_found_in_its_log_dir(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        fill(made)
        for topic in made.broker.catalogue.topics.values():
            for partition in topic.partitions:
                text = base64.urlsafe_b64encode(topic.topic_id).decode()[:22]
                Path(partition.leader.folder, files.PARTITION_METADATA).write_text(
                    f"version: 0\ntopic_id: {text}"
                )
        exported(made)
        kafka_runs(made)
        here = made.broker.catalogue.topics["orders"].partitions[0]
        there = next(log_dir for log_dir in made.dirs if log_dir != here.log_dir)
        shutil.move(here.leader.folder, f"{there}/orders-0")
        assert made.reboot().catalogue.topics["orders"].partitions[0].log_dir == there


def test_a_topic_of_kafka_in_a_log_dir_that_comes_back_later_is_adopted(tmp_path: Path) -> None:
    """It was renamed to -stray when another topic was deleted before that."""
    with world(tmp_path, dirs=2) as made:
        made.directory_ids = dict(zip(made.dirs, ("first", "second"), strict=True))
        made.reboot()
        fill(made)
        with_ids(made)
        exported(made)
        kafka_runs(made, kr.TopicRecord("new", b"n" * 16))
        both, (first, second) = made.dirs, made.dirs
        (Path(second, "new-0")).mkdir()
        mark_folder(Path(second, "new-0"), b"n" * 16)
        made.dirs, made.directory_ids = [first], {first: "first"}
        made.reboot()
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["orders"]]))
        made.reboot()
        made.dirs, made.directory_ids = both, dict(zip(both, ("first", "second"), strict=True))
        made.reboot()
        assert set(made.broker.catalogue.topics) == {"doomed", "new"}
        assert not unseen_topics(made.broker.stores.first)


def test_a_new_store_takes_users_and_quotas_of_kafkas(tmp_path: Path) -> None:
    folder = tmp_path / "d0" / FOLDER
    folder.mkdir(parents=True)
    values = [framed(kr.UserScramCredentialRecord("bob", 2, *CREDENTIAL))]
    values.append(framed(kr.ClientQuotaRecord([kr.QuotaEntity("user", None)], "consumer_byte_rate", 3.0)))
    values.append(framed(kr.AccessControlEntryRecord(b"a" * 16, *ACL)))
    values.append(framed(kr.DelegationTokenRecord("User:cid", "User:cid", [], 1, 3, 2, "theirs")))
    batch = build_batch([(None, value, (), 1) for value in values])
    Path(files.path(str(folder), 0, files.LOG)).write_bytes(batch)
    with world(tmp_path) as made:
        stored = made.broker.stores.first.load()
        assert stored.scram == {("bob", 2): CREDENTIAL}
        assert stored.client_quotas == {(("user", None),): {"consumer_byte_rate": 3.0}}
        assert stored.acls == [ACL]
        assert set(stored.tokens) == {"theirs"}


def put_snapshot(data_folder: Path, snapshot: bytes) -> None:
    """A log dir without a store has this snapshot of metadata."""
    folder = data_folder / "d0" / FOLDER
    folder.mkdir(parents=True)
    (folder / SnapshotId(1, 1).file_name).write_bytes(snapshot)


def test_a_restored_backup_has_the_feature_levels_that_were_set(tmp_path: Path) -> None:
    """Once: levels that are set later stay."""
    lowered = {"group.version": 0, "transaction.version": 1}
    directory = base64.urlsafe_b64encode(directory_id(9)).decode()[:22]
    with world(tmp_path / "source") as made:
        made.broker.stores.first.apply(Change(features=lowered))
        put_snapshot(tmp_path / "restored", portable(made.broker.stores.first, 1, directory, NEWEST, 5))
    with world(tmp_path / "restored") as made:
        assert made.broker.features == lowered
        made.broker.stores.first.apply(Change(features={"group.version": 1}))
        kafka_runs(made)
        assert made.reboot().features == {"group.version": 1, "transaction.version": 1}


def test_a_new_store_takes_no_feature_levels_of_kafkas(tmp_path: Path) -> None:
    levels = {"metadata.version": 25, "group.version": 1, "transaction.version": 1}
    put_snapshot(tmp_path, build([kr.FeatureLevelRecord(*one) for one in levels.items()], (), 1, 1))
    with world(tmp_path) as made:
        assert made.broker.features == {}
