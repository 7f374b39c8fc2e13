"""The durable state in no log: topics, configs, quotas, credentials, producer ids, features.

One SQLite file, `kbroker.db`, and copies of it in other log directories (`copies.py`); WAL,
synchronous=FULL: a change that was answered is on disk.

Schema version (PRAGMA user_version) 6:
    meta(key, value)                    cluster_id, next_producer_id, next_generation, features_epoch; run, changes:
                                        see `StoreVersion`; copies: log dirs of all copies that are
                                        written, as JSON
    topics(name, topic_id)
    partitions(topic, idx, log_dir, leader_epoch, slot, generation)     the leader's log
    replicas(topic, idx, position, log_dir, slot, generation, in_sync, state)
                                        all logs of a partition that has more than one, the leader's
                                        included, the preferred one first; state: '', or 'adding',
                                        'removing' (since 4)
    configs(resource_type, resource_name, name, value)      resource types as in Kafka's ConfigResource
    features(name, level)               finalized features
    deletions(topic, idx, topic_id, log_dir, slot, generation)
                                        logs of deleted topics whose folders may still be there
                                        (since 2; since 4 one for each replica)
    client_quotas(entity, key, value)   entity as JSON of its (type, name) pairs (since 3)
    scram_credentials(user, mechanism, salt, stored_key, server_key, iterations)
                                        never a password, nor what could stand for one (since 3)
    acls(resource_type, resource_name, pattern_type, principal, host, operation, permission)
                                        numbers as in Kafka's protocol (since 5)
    delegation_tokens(token_id, owner, requester, renewers, issued_ms, max_ms, expiry_ms)
                                        principals as Type:name, renewers as JSON; never an HMAC
                                        (since 6)
Migration: add a step to MIGRATIONS (`schema.py`) that takes version n to n + 1; steps run in one
transaction when the file is opened. A file of a newer version is refused, and one whose rows do not
add up to their digest (`digest.py`).
"""

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kbroker.config.acls import Acl
from kbroker.config.client_quotas import Entity
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.store import access
from kbroker.control.store.access import ScramKey
from kbroker.control.store.digest import DamagedStore, RowDigest
from kbroker.control.store.permissions import close_to_others
from kbroker.control.store.schema import MIGRATIONS
from kbroker.ipc.messages import ScramCredential

FILE_NAME = "kbroker.db"

VERSION = len(MIGRATIONS)
RESERVE = 1 << 20

ConfigKey = tuple[int, str]
"""Resource type and name."""


class StoreError(Exception):
    """The store cannot be used: damaged, or written by a newer version."""


class NewerStore(StoreError):
    """Written by a newer version of kbroker."""


class StoreVersion(NamedTuple):
    """The version of a copy. run: grows when control opens the store; changes: by transaction."""

    run: int
    changes: int


def store_version_of(db: sqlite3.Connection) -> StoreVersion:
    """The version of an open file. Raises sqlite3.Error."""
    found = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('run', 'changes')").fetchall())
    return StoreVersion(int(found.get("run", 0)), int(found.get("changes", 0)))


@dataclass(frozen=True, slots=True)
class Deletion:
    """A log of a deleted topic or replica: gone for clients, perhaps not yet for an IO worker."""

    topic_id: bytes
    partition: Replica


@dataclass(slots=True)
class Change:
    """One atomic change. configs: (resource type, name) -> key -> new value, None to drop the key.

    deletions: logs to delete; they are stored until `finish_deletions`. led_partitions: with a
    changed leader, epoch or replicas; partitions that are not stored any more are skipped.
    client_quotas: entity -> key -> new value, None to drop the key. scram, tokens: new ones, None
    to drop them. acls: whether each is there from now on.
    """

    new_topics: list[Topic] = field(default_factory=list)
    deleted_topics: list[str] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    new_partitions: list[Partition] = field(default_factory=list)
    moved_partitions: list[Partition] = field(default_factory=list)
    led_partitions: list[Partition] = field(default_factory=list)
    configs: dict[ConfigKey, dict[str, str | None]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    client_quotas: dict[Entity, dict[str, float | None]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential | None] = field(default_factory=dict)
    acls: dict[Acl, bool] = field(default_factory=dict)
    tokens: dict[str, DelegationToken | None] = field(default_factory=dict)


@dataclass(slots=True)
class Stored:
    """Everything that the store holds."""

    topics: list[Topic]
    configs: dict[ConfigKey, dict[str, str]]
    features: dict[str, int]
    features_epoch: int
    next_generation: int
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential] = field(default_factory=dict)
    acls: list[Acl] = field(default_factory=list)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)


class Store:
    """The file. Runs in: control, on its store thread. Owner: the Broker, one thread at a time."""

    def __init__(self, path: Path, reserve: bool = True) -> None:
        """reserve: make room for changes on a full disk, too. Raises StoreError."""
        self.path = path
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        close_to_others(path)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            migrated = self._migrate(path)
            if reserve:
                self.reserve()
            self._digest = RowDigest(self._db, path, anew=migrated)
        except (sqlite3.DatabaseError, DamagedStore) as error:
            self._db.close()
            raise StoreError(f"{path}: {error}") from error
        except StoreError:
            self._db.close()
            raise

    def _migrate(self, path: Path) -> bool:
        """Whether the file was of an older version, or new."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise NewerStore(f"{path} has version {version}; this kbroker reads up to {VERSION}")
        for number in range(version, VERSION):
            self._db.executescript(f"BEGIN; {MIGRATIONS[number]} PRAGMA user_version={number + 1}; COMMIT;")
        return bool(version < VERSION)

    def reserve(self) -> None:
        """Make room for changes on a full disk, so that topics can be deleted and retention
        shortened just then: RESERVE bytes of free pages in the file, and a WAL of that length that
        begins anew after a checkpoint. A disk that is full already has no room for it."""
        with suppress(sqlite3.OperationalError):
            with self._transaction(change=False) as db:
                db.execute("CREATE TABLE reserve (room BLOB)")
                db.execute("INSERT INTO reserve VALUES (zeroblob(?))", (RESERVE,))
                db.execute("DROP TABLE reserve")
            self._db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    @contextmanager
    def _transaction(self, change: bool = True) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            if change:
                self._put_meta("changes", self.version.changes + 1)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- copies ------------------------------------------------------------------------------------------

    @property
    def version(self) -> StoreVersion:
        """This file's version."""
        return store_version_of(self._db)

    @property
    def copies(self) -> list[str]:
        """Log dirs of all copies written along with this one, itself included; empty when new."""
        return [str(log_dir) for log_dir in json.loads(self.meta("copies", "[]"))]

    def put_copies(self, log_dirs: Sequence[str]) -> None:
        """Set the current copies; any other copy is out of date from now on."""
        self.put_meta("copies", json.dumps(sorted(log_dirs)))

    def begin_run(self) -> None:
        """Begin a new run: later writes are newer than any absent copy."""
        with self._transaction():
            self._put_meta("run", self.version.run + 1)

    # --- contents ----------------------------------------------------------------------------------------

    def load(self) -> Stored:
        """Read everything."""
        topics = {
            name: Topic(name, topic_id)
            for name, topic_id in self._db.execute("SELECT name, topic_id FROM topics ORDER BY name")
        }
        rows = self._db.execute(
            "SELECT topic, idx, log_dir, slot, generation, leader_epoch FROM partitions ORDER BY topic, idx"
        )
        for row in rows:
            topics[row[0]].partitions.append(Partition(*row))
        self._load_replicas(topics)
        configs: dict[ConfigKey, dict[str, str]] = {}
        for kind, resource, name, value in self._db.execute(
            "SELECT resource_type, resource_name, name, value FROM configs ORDER BY 1, 2, 3"
        ):
            configs.setdefault((kind, resource), {})[name] = value
        return Stored(
            topics=list(topics.values()),
            configs=configs,
            features=dict(self._db.execute("SELECT name, level FROM features ORDER BY name").fetchall()),
            features_epoch=int(self.meta("features_epoch", "0")),
            next_generation=int(self.meta("next_generation", "1")),
            client_quotas=self._client_quotas(),
            acls=access.load_acls(self._db),
            scram=access.load_scram(self._db),
            tokens=access.load_tokens(self._db),
        )

    def _client_quotas(self) -> dict[Entity, dict[str, float]]:
        found: dict[Entity, dict[str, float]] = {}
        for text, key, value in self._db.execute("SELECT entity, key, value FROM client_quotas"):
            entity = tuple((kind, name) for kind, name in json.loads(text))
            found.setdefault(entity, {})[key] = float(value)
        return found

    def _load_replicas(self, topics: dict[str, Topic]) -> None:
        found: dict[tuple[str, int], list[tuple[Replica, str]]] = {}
        for topic, index, log_dir, slot, generation, in_sync, state in self._db.execute(
            "SELECT topic, idx, log_dir, slot, generation, in_sync, state FROM replicas ORDER BY topic, idx, position"
        ):
            replica = Replica(topic, index, log_dir, slot, generation, in_sync=bool(in_sync))
            found.setdefault((topic, index), []).append((replica, state))
        for (name, index), replicas in found.items():
            partition = topics[name].partitions[index]
            partition.replicas = [replica for replica, _ in replicas]
            partition.leader = next(r for r in partition.replicas if r.slot == partition.slot)
            partition.adding = [replica for replica, state in replicas if state == "adding"]
            partition.removing = [replica for replica, state in replicas if state == "removing"]

    def meta(self, key: str, default: str) -> str:
        """One value of the meta table."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def _put_meta(self, key: str, value: object) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))

    def put_meta(self, key: str, value: str) -> None:
        """Set one value of the meta table, durably."""
        if self.meta(key, "") == value:
            return
        with self._transaction():
            self._put_meta(key, value)

    def apply(self, change: Change) -> None:
        """Make a change durable, all of it or nothing."""
        with self._transaction() as db:
            db.executemany("DELETE FROM topics WHERE name = ?", [(name,) for name in change.deleted_topics])
            gone = [(one.partition, one.topic_id) for one in change.deletions]
            db.executemany(
                "INSERT INTO deletions VALUES (?, ?, ?, ?, ?, ?)",
                [(p.topic, p.index, topic_id, p.log_dir, p.slot, p.generation) for p, topic_id in gone],
            )
            db.executemany(
                "INSERT INTO topics VALUES (?, ?)", [(t.name, t.topic_id) for t in change.new_topics]
            )
            added = [p for topic in change.new_topics for p in topic.partitions] + change.new_partitions
            db.executemany("INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?)", map(_partition_row, added))
            if added:
                self._put_meta("next_generation", max(r.generation for p in added for r in p.replicas) + 1)
            db.executemany(
                "INSERT OR REPLACE INTO partitions VALUES (?, ?, ?, ?, ?, ?)",
                map(_partition_row, change.moved_partitions),
            )
            for partition in [*added, *change.moved_partitions]:
                self._put_replicas(partition)
            for partition in change.led_partitions:
                self._put_leader(partition)
            for (kind, resource), values in change.configs.items():
                self._apply_configs(kind, resource, values)
            if change.features:
                self._apply_features(change.features)
            for entity, quotas in change.client_quotas.items():
                self._apply_quotas(json.dumps(entity), quotas)
            access.apply_scram(db, change.scram)
            access.apply_tokens(db, change.tokens)
            access.apply_acls(db, change.acls)

    def _apply_quotas(self, entity: str, quotas: dict[str, float | None]) -> None:
        for key, value in quotas.items():
            if value is None:
                self._db.execute("DELETE FROM client_quotas WHERE entity = ? AND key = ?", (entity, key))
            else:
                row = (entity, key, repr(value))
                self._db.execute("INSERT OR REPLACE INTO client_quotas VALUES (?, ?, ?)", row)

    def _put_leader(self, p: Partition) -> None:
        updated = self._db.execute(
            "UPDATE partitions SET log_dir = ?, slot = ?, generation = ?, leader_epoch = ? WHERE topic = ? AND idx = ?",
            (p.log_dir, p.slot, p.generation, p.leader_epoch, p.topic, p.index),
        )
        if updated.rowcount:
            newest = max(replica.generation for replica in p.replicas) + 1
            self._put_meta("next_generation", max(newest, int(self.meta("next_generation", "1"))))
            self._put_replicas(p)

    def _put_replicas(self, p: Partition) -> None:
        """All logs of a partition that has more than one."""
        self._db.execute("DELETE FROM replicas WHERE topic = ? AND idx = ?", (p.topic, p.index))
        if not p.replicated:
            return
        for position, r in enumerate(p.replicas):
            state = "adding" if r in p.adding else "removing" if r in p.removing else ""
            self._db.execute(
                "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (p.topic, p.index, position, r.log_dir, r.slot, r.generation, int(r.in_sync), state),
            )

    def _apply_configs(self, kind: int, resource: str, values: dict[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                self._db.execute(
                    "DELETE FROM configs WHERE resource_type = ? AND resource_name = ? AND name = ?",
                    (kind, resource, name),
                )
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO configs VALUES (?, ?, ?, ?)", (kind, resource, name, value)
                )

    def _apply_features(self, features: dict[str, int]) -> None:
        for name, level in features.items():  # 0, too: a feature that is not here has its default
            self._db.execute("INSERT OR REPLACE INTO features VALUES (?, ?)", (name, level))
        self._put_meta("features_epoch", int(self.meta("features_epoch", "0")) + 1)

    def deletions(self) -> list[Deletion]:
        """Deletions without a call of `finish_deletions` yet."""
        rows = self._db.execute("SELECT topic_id, topic, idx, log_dir, slot, generation FROM deletions")
        return [Deletion(topic_id, Replica(*replica)) for topic_id, *replica in rows]

    def finish_deletions(self, finished: Sequence[Deletion]) -> None:
        """These partitions are closed and their folders are out of the way."""
        with self._transaction() as db:
            keys = [(one.topic_id, one.partition.index, one.partition.log_dir) for one in finished]
            db.executemany("DELETE FROM deletions WHERE topic_id = ? AND idx = ? AND log_dir = ?", keys)

    def allocate_producer_ids(self, count: int) -> int:
        """The first of `count` producer ids; they are used up before this returns."""
        with self._transaction():
            first = int(self.meta("next_producer_id", "0"))
            self._put_meta("next_producer_id", first + count)
        return first

    def skip_producer_ids(self, first: int) -> None:
        """Never allocate an id below this one: it may be in use."""
        with self._transaction():
            self._put_meta("next_producer_id", max(first, int(self.meta("next_producer_id", "0"))))

    def advance_leader_epochs(self, count: int = 1, kept_in: Collection[str] = ()) -> None:
        """In a new run leader epochs grow, but for single replicas in kept_in (log dirs)."""
        with self._transaction() as db:
            db.execute(
                "UPDATE partitions AS p SET leader_epoch = leader_epoch + ?"
                " WHERE log_dir NOT IN (SELECT value FROM json_each(?))"
                " OR EXISTS (SELECT 1 FROM replicas AS r WHERE r.topic = p.topic AND r.idx = p.idx)",
                (count, json.dumps(list(kept_in))),
            )

    def close(self) -> None:
        """Close the file; the WAL is folded into it."""
        self._db.close()


def _partition_row(p: Partition) -> tuple[str, int, str, int, int, int]:
    return (p.topic, p.index, p.log_dir, p.leader_epoch, p.slot, p.generation)
