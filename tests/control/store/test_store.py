"""The SQLite store: what it holds survives, changes are atomic, versions are checked."""

import sqlite3
from pathlib import Path

import pytest

from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.store.change import Change
from kbroker.control.store.store import VERSION, Store, StoreError
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
