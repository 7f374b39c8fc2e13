"""Writes .txnindex files: one entry per aborted transaction, by rising last offset (Kafka's
TransactionIndex).
"""

import os
from pathlib import Path

from kbroker.log import files
from kbroker.log.aborted_transactions import ENTRY, AbortedTransaction, is_damaged, parse_entries


def append(folder: str, base_offset: int, entry: AbortedTransaction) -> None:
    """Add an entry to a segment's transaction index; the file appears with its first entry."""
    fd = os.open(
        files.path(folder, base_offset, files.TXN_INDEX),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o644,
    )
    try:
        os.write(fd, entry.pack())
    finally:
        os.close(fd)


def read(folder: str, base_offset: int) -> list[AbortedTransaction]:
    """Entries of a segment's transaction index, none when there is no file. Raises CorruptLog."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    try:
        with open(path, "rb") as source:
            return parse_entries(source.read(), path)
    except FileNotFoundError:
        return []


def truncate(folder: str, base_offset: int, offset: int) -> None:
    """Remove entries whose marker is at or after an offset, and a torn last one."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    if Path(path).exists():
        kept = sum(entry.last_offset < offset for entry in read(folder, base_offset))
        os.truncate(path, kept * ENTRY.size)


def reset(folder: str, base_offset: int) -> None:
    """Empty a segment's transaction index, if it has one."""
    path = Path(files.path(folder, base_offset, files.TXN_INDEX))
    if path.exists():
        os.truncate(path, 0)


def is_sane(folder: str, base_offset: int) -> bool:
    """Whether every entry ends at or after the segment's base (TransactionIndex.sanityCheck), and the file is
    what it was when it was sealed. Raises CorruptLog, OSError."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    data = Path(path).read_bytes()
    entries = parse_entries(data, path)
    return all(entry.last_offset >= base_offset for entry in entries) and not is_damaged(path, data)
