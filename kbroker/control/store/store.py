"""The durable state that is not in logs: topics, configs, quotas, credentials, producer ids,
features.

One SQLite file, `kbroker.db`, and copies of it in other log directories (`copies.py`); WAL,
synchronous=FULL: a change is on disk before it is answered. Its tables are in `schema.py`. A file
of a newer version is refused, and so is a file whose rows do not match their digest (`digest.py`).
"""

import json
import sqlite3
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.store import access, settings, topics
from kbroker.control.store.change import Change, Deletion, Stored
from kbroker.control.store.digest import DamagedStore, RowDigest
from kbroker.control.store.schema import MIGRATIONS

FILE_NAME = "kbroker.db"

VERSION = len(MIGRATIONS)
RESERVE = 1 << 20
GROUP_AND_OTHERS = 0o077
LOGIN_SECRET = "login_secret"
"""Key of the meta table: 32 random bytes as hex, from the first start on."""
DIRECTORY = "directory."
"""Begins a key of the meta table: the path of a log dir follows, its value is the directory.id."""
ABSENT = "absent."
"""Begins a key of the meta table: the directory.id of a log dir follows that was not there while
topics may have been deleted."""


class StoreError(Exception):
    """The store cannot be used: damaged, or written by a newer version."""


class NewerStore(StoreError):
    """Written by a newer version of kbroker."""


class StoreVersion(NamedTuple):
    """The version of a copy. run: grows when control opens the store; changes: incremented by each
    transaction."""

    run: int
    changes: int

    def __str__(self) -> str:
        return f"{self.changes} of run {self.run}"


def store_version_of(db: sqlite3.Connection) -> StoreVersion:
    """The version of an open file. Raises sqlite3.Error."""
    found = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('run', 'changes')").fetchall())
    return StoreVersion(int(found.get("run", 0)), int(found.get("changes", 0)))


class Store:
    """The file. Runs in: control, on its store thread. Owner: the Broker, one thread at a time."""

    def __init__(self, path: Path, reserve: bool = True) -> None:
        """reserve: keep space for changes on a full disk. Raises StoreError."""
        self.path = path
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        close_to_others(path)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            migrated = self._migrate(path)
            if reserve:
                self.reserve()
            self._digest = RowDigest(self._db, path, outdated=migrated)
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
            raise NewerStore(
                f"{path} is of a newer kbroker: it has version {version}, and this kbroker reads up to {VERSION}"
            )
        for number in range(version, VERSION):
            self._db.executescript(f"BEGIN; {MIGRATIONS[number]} PRAGMA user_version={number + 1}; COMMIT;")
        return bool(version < VERSION)

    def reserve(self) -> None:
        """Reserve space so that topics can be deleted and retention shortened on a full disk:
        RESERVE bytes of free pages in the file, and a WAL of that length that restarts after a
        checkpoint. This does nothing on a disk that is already full."""
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
        """Log dirs of all current copies, this one included; empty in a new store."""
        return [str(log_dir) for log_dir in json.loads(self.meta("copies", "[]"))]

    def put_copies(self, log_dirs: Sequence[str]) -> None:
        """Set the current copies; every other copy is out of date from now on."""
        self.put_meta("copies", json.dumps(sorted(log_dirs)))

    def directory_ids(self) -> dict[str, str]:
        """The directory.id of each log dir at the last start, by path."""
        rows = self._db.execute("SELECT key, value FROM meta WHERE key LIKE ?", (f"{DIRECTORY}%",))
        return {str(key).removeprefix(DIRECTORY): str(value) for key, value in rows}

    def put_directory_id(self, log_dir: str, directory_id: str) -> None:
        """Set the directory.id of a log dir. The one that it replaces is absent from now on."""
        if (before := self.meta(f"{DIRECTORY}{log_dir}", "")) == directory_id:
            return
        with self._transaction():
            self._put_meta(f"{DIRECTORY}{log_dir}", directory_id)
            if before:
                self._put_meta(f"{ABSENT}{before}", "")

    def absent(self) -> set[str]:
        """The log dirs that miss deletions, by directory.id (see ABSENT)."""
        rows = self._db.execute("SELECT key FROM meta WHERE key LIKE ?", (f"{ABSENT}%",))
        return {str(key).removeprefix(ABSENT) for (key,) in rows}

    def put_absent(self, log_dirs: Collection[str]) -> None:
        """Log dirs are absent, by path."""
        if not self._identities(log_dirs) <= self.absent():
            with self._transaction():
                self._put_absent(log_dirs)

    def end_absence(self, identities: Iterable[str]) -> None:
        """Log dirs are there again, and have no folder of a deleted topic."""
        if keys := [(f"{ABSENT}{one}",) for one in identities]:
            with self._transaction() as db:
                db.executemany("DELETE FROM meta WHERE key = ?", keys)

    def _put_absent(self, log_dirs: Iterable[str]) -> None:
        for one in self._identities(log_dirs):
            self._put_meta(f"{ABSENT}{one}", "")

    def _identities(self, log_dirs: Iterable[str]) -> set[str]:
        """The ids of those that were there at some start: of another one the store knows nothing,
        so its topics may be of Apache Kafka."""
        known = self.directory_ids()
        return {known[log_dir] for log_dir in log_dirs if known.get(log_dir)}

    def rename_log_dirs(self, moved: Mapping[str, str]) -> None:
        """Set new paths of log dirs, by their old ones."""
        with self._transaction() as db:
            for old, new in moved.items():
                for table in ("partitions", "replicas", "deletions"):
                    db.execute(f"UPDATE {table} SET log_dir = ? WHERE log_dir = ?", (new, old))
                self._put_meta(f"{DIRECTORY}{new}", self.meta(f"{DIRECTORY}{old}", ""))
                db.execute("DELETE FROM meta WHERE key = ?", (f"{DIRECTORY}{old}",))

    def begin_run(self, lowest: int = 0) -> None:
        """Begin a new run: later writes are newer than those of any missing copy. lowest: a number
        that the run is not below."""
        with self._transaction():
            self._put_meta("run", max(self.version.run + 1, lowest))

    # --- contents ----------------------------------------------------------------------------------------

    def load(self) -> Stored:
        """Read everything."""
        return Stored(
            topics=topics.load_topics(self._db),
            configs=settings.load_configs(self._db),
            features=dict(self._db.execute("SELECT name, level FROM features ORDER BY name").fetchall()),
            features_epoch=int(self.meta("features_epoch", "0")),
            next_generation=int(self.meta("next_generation", "1")),
            client_quotas=settings.load_quotas(self._db),
            acls=access.load_acls(self._db),
            scram=access.load_scram(self._db),
            tokens=access.load_tokens(self._db),
            login_secret=bytes.fromhex(self.meta(LOGIN_SECRET, "")),
        )

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
        """Store a change, all of it or nothing."""
        with self._transaction() as db:
            db.executemany("DELETE FROM topics WHERE name = ?", [(name,) for name in change.deleted_topics])
            gone = [(one.partition, one.topic_id) for one in change.deletions]
            db.executemany(  # replaced: that of a former replica in the same log dir, which was not finished
                "INSERT OR REPLACE INTO deletions VALUES (?, ?, ?, ?, ?, ?)",
                [(p.topic, p.index, topic_id, p.log_dir, p.slot, p.generation) for p, topic_id in gone],
            )
            db.executemany(
                "INSERT INTO topics VALUES (?, ?)", [(t.name, t.topic_id) for t in change.new_topics]
            )
            added = [p for topic in change.new_topics for p in topic.partitions] + change.new_partitions
            topics.put_partitions(db, added, change.moved_partitions)
            self._skip_generations([*added, *change.moved_partitions])
            for partition in change.led_partitions:
                self._put_leader(partition)
            for (kind, resource), values in change.configs.items():
                settings.apply_configs(db, kind, resource, values)
            if change.features:
                self._apply_features(change.features)
            for entity, quotas in change.client_quotas.items():
                settings.apply_quotas(db, entity, quotas)
            access.apply_scram(db, change.scram)
            access.apply_tokens(db, change.tokens)
            access.apply_acls(db, change.acls)

    def _put_leader(self, p: Partition) -> None:
        if topics.put_leader(self._db, p):
            self._skip_generations([p])

    def _skip_generations(self, partitions: Sequence[Partition]) -> None:
        """Give no generation of these partitions to another log."""
        if partitions:
            newest = max(replica.generation for p in partitions for replica in p.replicas)
            self._put_meta("next_generation", max(newest + 1, int(self.meta("next_generation", "1"))))

    def _apply_features(self, features: dict[str, int]) -> None:
        for name, level in features.items():  # 0, too: a feature that is not here has its default
            self._db.execute("INSERT OR REPLACE INTO features VALUES (?, ?)", (name, level))
        self._put_meta("features_epoch", int(self.meta("features_epoch", "0")) + 1)

    def deletions(self) -> list[Deletion]:
        """Deletions that `finish_deletions` has not finished."""
        rows = self._db.execute("SELECT topic_id, topic, idx, log_dir, slot, generation FROM deletions")
        return [Deletion(topic_id, Replica(*replica)) for topic_id, *replica in rows]

    def finish_deletions(self, finished: Sequence[Deletion], absent: Iterable[str] = ()) -> None:
        """These partitions are closed, and their folders renamed. absent: log dirs that are offline
        and may have folders of them, too."""
        with self._transaction() as db:
            self._put_absent(absent)
            keys = [(one.topic_id, one.partition.index, one.partition.log_dir) for one in finished]
            db.executemany("DELETE FROM deletions WHERE topic_id = ? AND idx = ? AND log_dir = ?", keys)

    def allocate_producer_ids(self, count: int) -> int:
        """Allocate `count` producer ids, durably; returns the first."""
        with self._transaction():
            first = int(self.meta("next_producer_id", "0"))
            self._put_meta("next_producer_id", first + count)
        return first

    def skip_producer_ids(self, first: int) -> None:
        """Never allocate an id below this one: it may be in use."""
        with self._transaction():
            self._put_meta("next_producer_id", max(first, int(self.meta("next_producer_id", "0"))))

    def advance_leader_epochs(self, count: int = 1, kept_in: Collection[str] = ()) -> None:
        """Increment leader epochs for a new run, except for single replicas in the log dirs
        `kept_in`."""
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


def close_to_others(path: Path) -> None:
    """Remove the permissions of group and others from the store's files, which an earlier version
    or a copying tool may have set: the files contain credentials."""
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):  # not there, or another user's: then its owner decides
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & GROUP_AND_OTHERS:
                file.chmod(mode & ~GROUP_AND_OTHERS)
