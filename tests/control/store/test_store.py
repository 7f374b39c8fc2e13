"""The SQLite store: what it holds survives, changes are atomic, versions are checked."""

import sqlite3
from pathlib import Path

import pytest

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.store.change import Change, Deletion
from kbroker.control.store.store import RESERVE, VERSION, Store, StoreError
from kbroker.ipc.messages import ScramCredential

QUOTA = (("client-id", None), ("user", "u"))
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
TOKEN = DelegationToken("id", "User:ann", "User:admin", ("User:bob", "User:cid"), 10, 30, 20)


def topic(name: str, *slots: int) -> Topic:
    partitions = [Partition(name, index, "/d", slot, slot + 100, 7) for index, slot in enumerate(slots)]
    return Topic(name, name.encode().ljust(16, b"."), partitions)


def test_everything_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    store = Store(path)
    store.apply(
        Change(
            new_topics=[topic("a", 3, 4)],
            configs={(2, "a"): {"retention.ms": "1"}, (4, ""): {"log.retention.ms": "2"}},
            features={"transaction.version": 1},
            client_quotas={QUOTA: {"producer_byte_rate": 1e19, "request_percentage": 0.1}},
            scram={("u", 1): CREDENTIAL, ("v", 2): CREDENTIAL},
            tokens={"id": TOKEN, "gone": TOKEN._replace(token_id="gone")},
        )
    )
    store.apply(Change(client_quotas={QUOTA: {"request_percentage": None}}, scram={("v", 2): None}))
    store.apply(Change(tokens={"id": TOKEN._replace(expiry_ms=25), "gone": None}))
    store.put_meta("cluster_id", "c")
    store.close()
    store = Store(path)
    stored = store.load()
    assert stored.topics == [topic("a", 3, 4)]
    assert stored.configs == {(2, "a"): {"retention.ms": "1"}, (4, ""): {"log.retention.ms": "2"}}
    assert stored.features == {"transaction.version": 1}
    assert stored.features_epoch == 1
    assert stored.client_quotas == {QUOTA: {"producer_byte_rate": 1e19}}
    assert stored.scram == {("u", 1): CREDENTIAL}
    assert stored.tokens == {"id": TOKEN._replace(expiry_ms=25)}
    assert stored.next_generation == 105
    assert store.meta("cluster_id", "") == "c"
    store.close()


def test_a_deleted_topic_takes_its_partitions_along(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("a", 1), topic("b", 2)]))
    store.apply(Change(deleted_topics=["a"]))
    assert [found.name for found in store.load().topics] == ["b"]
    store.apply(Change(new_topics=[topic("a", 1)]))  # its slot is free again
    store.close()


def test_a_change_is_atomic(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("a", 1)]))
    with pytest.raises(sqlite3.IntegrityError):
        store.apply(Change(new_topics=[topic("b", 2), topic("c", 1)], configs={(2, "b"): {"k": "v"}}))
    stored = store.load()
    assert [found.name for found in stored.topics] == ["a"]
    assert not stored.configs
    store.apply(Change(new_topics=[topic("b", 2)]))  # the connection can still be used
    store.close()


def test_a_config_set_to_none_is_dropped(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(configs={(2, "a"): {"x": "1", "y": "2"}}))
    store.apply(Change(configs={(2, "a"): {"x": None, "y": "3"}}))
    assert store.load().configs == {(2, "a"): {"y": "3"}}
    store.close()


def test_producer_ids_are_never_given_twice_even_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    store = Store(path)
    assert store.allocate_producer_ids(1000) == 0
    crashed = Store(path)  # a second opening without a close of the first: as after kill -9
    assert crashed.allocate_producer_ids(1000) == 1000
    crashed.close()
    store.close()


def test_leader_epochs_grow_with_every_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("a", 1)]))
    store.advance_leader_epochs()
    assert store.load().topics[0].partitions[0].leader_epoch == 8
    store.close()


def test_single_replicas_in_log_dirs_that_were_closed_cleanly_keep_their_epochs(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    alone, followed, elsewhere = topic("alone", 1), topic("followed", 2), topic("elsewhere", 3)
    followed.partitions[0].replicas.append(Replica("followed", 0, "/b", 30, 9))
    elsewhere.partitions[0].leader.log_dir = "/c"
    store.apply(Change(new_topics=[alone, followed, elsewhere]))
    store.advance_leader_epochs(1, {"/b", "/d"})
    epochs = {made.name: made.partitions[0].leader_epoch for made in store.load().topics}
    assert epochs == {"alone": 7, "followed": 8, "elsewhere": 8}
    store.close()


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.close()
    with pytest.raises(StoreError, match=f"version {VERSION + 1}"):
        Store(path)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError):
        Store(path)


def test_changes_are_synced_to_disk(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_change_that_was_answered_is_on_disk(tmp_path: Path) -> None:
    """SQLite syncs its write-ahead log with every transaction at FULL (2) alone."""
    store = Store(tmp_path / "kbroker.db")
    pragmas = {
        name: store._db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    store.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_producer_ids_that_are_skipped_never_bring_back_used_ones(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.allocate_producer_ids(1000)
    store.skip_producer_ids(400)
    assert store.allocate_producer_ids(1000) == 1000
    store.skip_producer_ids(5000)
    assert store.allocate_producer_ids(1) == 5000
    store.close()


def test_a_new_leader_with_an_old_log_gives_no_generation_out_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("a", 1), topic("b", 9)]))
    assert store.load().next_generation == 110
    store.apply(Change(led_partitions=[Partition("a", 0, "/d", 1, 101, 8)]))
    assert store.load().next_generation == 110
    store.apply(Change(led_partitions=[Partition("a", 0, "/d", 1, 140, 9)]))
    assert store.load().next_generation == 141
    store.close()


def replicated() -> Partition:
    """A partition whose second replica leads; the first is removed, the third is added."""
    made = Partition("a", 0, "/b", 2, 102, 7)
    first, third = Replica("a", 0, "/a", 1, 101, in_sync=False), Replica("a", 0, "/c", 3, 103)
    made.replicas = [first, made.leader, third]
    made.adding, made.removing = [third], [first]
    return made


def test_replicas_survive_with_their_states_and_generations(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    made = replicated()
    store.apply(Change(new_topics=[Topic("a", b"a" * 16, [made])]))
    stored = store.load()
    (found,) = stored.topics[0].partitions
    assert (found, found.leader) == (made, found.replicas[1])
    assert [each.slot for each in found.adding] == [3]
    assert [each.slot for each in found.removing] == [1]
    assert stored.next_generation == 104
    store.close()


def test_a_partition_that_has_moved_has_the_replicas_of_its_change(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[Topic("a", b"a" * 16, [replicated()])]))
    alone = Partition("a", 0, "/e", 2, 102, 8)
    store.apply(Change(moved_partitions=[alone]))
    assert store.load().topics[0].partitions == [alone]
    store.close()


def test_a_leader_of_a_partition_that_is_not_stored_any_more_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("b", 9)]))
    store.apply(Change(led_partitions=[replicated()]))
    stored = store.load()
    assert (stored.topics, stored.next_generation) == ([topic("b", 9)], 110)
    store.close()


def test_topics_and_partitions_are_in_order(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(new_topics=[topic("b", 5), topic("a", 4)]))
    store.apply(
        Change(new_partitions=[Partition("b", 2, "/d", 1, 120, 7), Partition("b", 1, "/d", 2, 121, 7)])
    )
    stored = store.load()
    names = [(each.topic, each.index) for found in stored.topics for each in found.partitions]
    assert names == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]
    assert stored.next_generation == 122
    store.close()


def test_acls_are_added_once_and_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    stays = Acl(acls.TOPIC, "t", acls.LITERAL, "User:ann", "*", acls.READ, acls.ALLOW)
    goes = stays._replace(host="10.0.0.1")
    store.apply(Change(acls={stays: True, goes: True}))
    assert sorted(store.load().acls) == sorted([stays, goes])
    store.apply(Change(acls={stays: True, goes: False}))
    assert store.load().acls == [stays]
    store.close()


def test_each_change_of_features_counts(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.apply(Change(features={"kept": 1, "off": 1}))
    store.apply(Change(features={"off": 0}))
    store.apply(Change(configs={(2, "a"): {"x": "1"}}))
    stored = store.load()
    assert (stored.features, stored.features_epoch) == ({"kept": 1, "off": 0}, 2)
    store.close()


def test_the_version_counts_runs_and_changes_that_were_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    assert store.version == (0, 0)
    store.apply(Change(new_topics=[topic("a", 1)]))
    store.begin_run()
    with pytest.raises(sqlite3.IntegrityError):
        store.apply(Change(new_topics=[topic("b", 1)]))
    assert (store.version, str(store.version)) == ((1, 2), "2 of run 1")
    for _ in range(2):  # the second one changes nothing
        store.put_meta("login_secret", "ff00")
    assert store.version == (1, 3)
    assert store.load().login_secret == b"\xff\0"
    store.close()


def test_log_dirs_that_miss_deletions_are_known_by_their_ids(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.put_directory_id("/a", "one")
    store.put_directory_id("/b", "two")
    assert (store.directory_ids(), store.absent()) == ({"/a": "one", "/b": "two"}, set())
    store.put_directory_id("/a", "three")
    assert store.absent() == {"one"}, "another log dir is in its place"
    store.put_absent(["/b", "/unknown"])
    assert store.absent() == {"one", "two"}
    version = store.version
    store.put_directory_id("/a", "three")
    store.put_absent(["/b"])
    store.end_absence([])
    assert store.version == version, "nothing has changed"
    store.end_absence(["one"])
    assert store.absent() == {"two"}
    store.close()


def test_deletions_stay_until_each_log_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    here, there = (Deletion(b"a" * 16, Replica("a", 0, path, 1, 101)) for path in ("/d", "/e"))
    store.put_directory_id("/off", "offline")
    store.apply(Change(deletions=[here, there]))
    store.finish_deletions([here], ["/off"])
    (left,) = store.deletions()
    log = left.partition
    assert (left.topic_id, log.topic, log.index, log.log_dir) == (b"a" * 16, "a", 0, "/e")
    assert (log.slot, log.generation, store.absent()) == (1, 101, {"offline"})
    store.close()


def test_a_log_dir_with_a_new_path_has_it_everywhere(tmp_path: Path) -> None:
    store = Store(tmp_path / "kbroker.db")
    store.put_directory_id("/b", "one")
    store.put_directory_id("/c", "two")
    gone = Deletion(b"z" * 16, Replica("z", 0, "/b", 9, 109))
    store.apply(Change(new_topics=[Topic("a", b"a" * 16, [replicated()])], deletions=[gone]))
    store.rename_log_dirs({"/b": "/new"})
    (found,) = store.load().topics[0].partitions
    assert [each.log_dir for each in found.replicas] == ["/a", "/new", "/c"]
    assert found.log_dir == store.deletions()[0].partition.log_dir == "/new"
    assert store.directory_ids() == {"/new": "one", "/c": "two"}
    store.close()


def test_no_other_user_may_read_the_store(tmp_path: Path) -> None:
    """It holds credentials; its mode may be of a copying tool."""
    path = tmp_path / "kbroker.db"
    path.touch()
    path.chmod(0o644)
    store = Store(path)
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()


@pytest.mark.parametrize("reserve", [True, False])
def test_a_store_reserves_space_for_changes_on_a_full_disk(tmp_path: Path, reserve: bool) -> None:
    path = tmp_path / "kbroker.db"
    Store(path, reserve).close()
    assert (path.stat().st_size >= RESERVE) == reserve
