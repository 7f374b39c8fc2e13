"""A digest of all rows of the store, because SQLite detects damage to its structure, but not to the
contents of a row.

The digest is the sum of the rows' hashes (BLAKE2b, 64 bits), so each change adds and subtracts a
few; temporary triggers keep it in ``meta`` in the same transaction. Opening the store computes the
sum again. The sqlite3 command does not update it: after repairs by hand remove it, DELETE FROM meta
WHERE key = 'digest'.
"""

import sqlite3
from hashlib import blake2b
from pathlib import Path

KEY = "digest"
WRAP = 1 << 63


class DamagedStore(Exception):
    """A row was changed without its digest: it is damaged."""


class RowDigest:
    """Watches one connection. Runs in: control. Owner: the Store. Raises DamagedStore,
    sqlite3.DatabaseError."""

    def __init__(self, db: sqlite3.Connection, path: Path, outdated: bool = False) -> None:
        """outdated: the file was just created or migrated, so its digest is missing or out of
        date."""
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise DamagedStore(found)
        db.create_function("row_hash", -1, row_hash, deterministic=True)
        db.create_function("wrapping_sum", 2, wrapping_sum, deterministic=True)
        db.execute("PRAGMA recursive_triggers=ON")  # else INSERT OR REPLACE would not report what it replaces
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        total = 0
        for row in db.execute("SELECT name, sql FROM sqlite_schema"):
            total = wrapping_sum(total, row_hash("sqlite_schema", *row))
        for table in tables:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            condition = f" WHERE key <> '{KEY}'" if table == "meta" else ""
            for row in db.execute(f"SELECT {', '.join(columns)} FROM {table}{condition}"):
                total = wrapping_sum(total, row_hash(table, *row))
            _watch(db, table, columns)
        stored = db.execute("SELECT value FROM meta WHERE key = ?", (KEY,)).fetchone()
        if stored is None or outdated:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (KEY, str(total)))
        elif stored[0] != str(total):
            raise DamagedStore(
                f"its rows have the digest {total}, not {stored[0]}: restore it from a copy, or, if it was changed by"
                f" hand, DELETE FROM meta WHERE key = '{KEY}' (in {path})"
            )


def _watch(db: sqlite3.Connection, table: str, columns: list[str]) -> None:
    for event, rows in (("INSERT", ("NEW",)), ("DELETE", ("OLD",)), ("UPDATE", ("OLD", "NEW"))):
        when = " AND ".join(f"{row}.key <> '{KEY}'" for row in rows) if table == "meta" else "1"
        change = "CAST(value AS INTEGER)"
        for row in rows:
            values = ", ".join(f"{row}.{column}" for column in columns)
            sign = "-" if row == "OLD" else ""
            change = f"wrapping_sum({change}, {sign}row_hash('{table}', {values}))"
        db.execute(
            f"CREATE TEMP TRIGGER digest_{table}_{event} AFTER {event} ON main.{table} WHEN {when} BEGIN"
            f" UPDATE meta SET value = CAST({change} AS TEXT) WHERE key = '{KEY}'; END"
        )


def row_hash(table: str, *values: object) -> int:
    """A row's hash, of 63 bits, so that SQLite can negate it."""
    return int.from_bytes(blake2b(repr((table, *values)).encode(), digest_size=8).digest(), "big") >> 1


def wrapping_sum(one: int, other: int) -> int:
    """A sum that wraps around within SQLite's integers."""
    return (one + other) % WRAP
