"""Any byte of the store that is not what was written is noticed when it is opened."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.control.store.change import Change, Deletion
from kbroker.control.store.store import Store, StoreError


def filled(path: Path) -> Store:
    store = Store(path)
    for n in range(20):
        topic = Topic(f"topic-{n}", bytes([n + 1]) * 16, [Partition(f"topic-{n}", 0, "/a", n, n + 1)])
        store.apply(Change(new_topics=[topic], configs={(2, f"topic-{n}"): {"retention.ms": str(n)}}))
    store.apply(
        Change(
            deleted_topics=["topic-3"], deletions=[Deletion(b"\4" * 16, Partition("topic-3", 0, "/a", 3, 4))]
        )
    )
    store.apply(
        Change(configs={(2, "topic-4"): {"retention.ms": "7"}, (2, "topic-5"): {"retention.ms": None}})
    )
    store.advance_leader_epochs()
    store.allocate_producer_ids(1000)
    return store


def test_every_kind_of_change_keeps_the_digest(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    before = filled(path).load()
    assert Store(path).load() == before


def test_no_flipped_byte_is_taken_for_data(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    store = filled(path)
    before = store.load()
    store.close()
    whole, chance, damaged = path.read_bytes(), random.Random(1), tmp_path / "damaged.db"
    noticed = 0
    for _ in range(150):
        at = chance.randrange(64 * 1024 if chance.random() < 0.9 else len(whole))
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        try:
            found = Store(damaged)
        except StoreError:
            noticed += 1
        else:
            assert found.load() == before
            found.close()
        for left in tmp_path.glob("damaged.db*"):
            left.unlink()
    assert noticed > 5


def test_a_changed_value_is_noticed_and_a_repair_by_hand_can_say_so(tmp_path: Path) -> None:
    path = tmp_path / "kbroker.db"
    filled(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE configs SET value = '8' WHERE resource_name = 'topic-4'")
    with pytest.raises(StoreError, match="digest"):
        Store(path)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM meta WHERE key = 'digest'")
    Store(path).close()
    shutil.copy(path, tmp_path / "copy.db")
    Store(tmp_path / "copy.db").close()
