"""Aborted transactions of a partition: .txnindex files, an entry for each by rising last offset
(TransactionIndex), and their look-up for read_committed fetches."""

import errno
import os
import struct
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbroker.kernels.crc32c import crc32c
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.reader import LogReader

ENTRY = struct.Struct(">hqqqq")
ENTRIES = np.dtype([("version", ">i2"), *((name, ">i8") for name in ("producer", "first", "last", "stable"))])
VERSION = 0
LONG_BYTES = 1 << 12
"""Bytes of a file whose entries are chosen before they are parsed: it may have a million, and each
fetch looks them up."""
SEAL = "user.kbroker.crc32c"
"""Extended attribute of a finished .txnindex: the format has no checksum."""


class AbortedTransaction(NamedTuple):
    """First record's and abort marker's offset of a transaction, and the last stable offset after
    the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def pack(self) -> bytes:
        """The 34 bytes of a .txnindex entry."""
        return ENTRY.pack(VERSION, *self)


def parse_entries(data: bytes, name: str) -> list[AbortedTransaction]:
    """Entries of a .txnindex file; a torn last one is left out. Raises CorruptLog for an unknown
    version."""
    whole = len(data) - len(data) % ENTRY.size
    found = []
    for version, *fields in ENTRY.iter_unpack(data[:whole]):
        if version > VERSION:
            raise CorruptLog(f"{name}: entry of version {version}, the newest known is {VERSION}")
        found.append(AbortedTransaction(*fields))
    return found


def seal(path: str) -> None:
    """Note what a .txnindex that is complete holds, if there is one. Not every file system can."""
    with suppress(OSError):
        os.setxattr(path, SEAL, b"%08x" % crc32c(Path(path).read_bytes()))


def is_damaged(path: str, data: bytes) -> bool:
    """Whether a .txnindex holds something else than when it was sealed; a file that was never
    sealed is not damaged."""
    try:
        return os.getxattr(path, SEAL) != b"%08x" % crc32c(data)
    except OSError:
        return False


# --- the file of one segment -------------------------------------------------------------------------------


def append_entry(folder: str, base_offset: int, entry: AbortedTransaction) -> None:
    """Add an entry to a segment's transaction index; the file appears with its first entry. Raises
    OSError: the file is as before."""
    fd = os.open(
        files.path(folder, base_offset, files.TXN_INDEX),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o644,
    )
    try:
        written = os.write(fd, entry.pack())
        if written < ENTRY.size:
            os.ftruncate(fd, os.fstat(fd).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
    finally:
        os.close(fd)


def read_index(folder: str, base_offset: int) -> list[AbortedTransaction]:
    """Entries of a segment's transaction index, none when there is no file. Raises CorruptLog."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    try:
        with open(path, "rb") as source:
            return parse_entries(source.read(), path)
    except FileNotFoundError:
        return []


def truncate_index(folder: str, base_offset: int, offset: int) -> None:
    """Remove entries whose marker is at or after an offset, and a torn last one."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    if Path(path).exists():
        kept = sum(entry.last_offset < offset for entry in read_index(folder, base_offset))
        os.truncate(path, kept * ENTRY.size)


def reset_index(folder: str, base_offset: int) -> None:
    """Empty a segment's transaction index, if it has one."""
    path = Path(files.path(folder, base_offset, files.TXN_INDEX))
    if path.exists():
        os.truncate(path, 0)


def is_sane(folder: str, base_offset: int) -> bool:
    """Whether every entry ends at or after the segment's base (TransactionIndex.sanityCheck), and
    the file is what it was when it was sealed. Raises CorruptLog, OSError."""
    path = files.path(folder, base_offset, files.TXN_INDEX)
    data = Path(path).read_bytes()
    entries = parse_entries(data, path)
    return all(entry.last_offset >= base_offset for entry in entries) and not is_damaged(path, data)


# --- look-up over all segments -----------------------------------------------------------------------------


def aborted_transactions(
    reader: LogReader, fetch_offset: int, upper_offset: int, version: int = -1
) -> list[AbortedTransaction]:
    """Transactions with records in [fetch_offset, upper_offset) that were aborted, by first offset.

    upper_offset: after the last offset of the fetched batches. The marker of a transaction may lie
    in any later segment, so the search ends where the last stable offset has passed the range, or
    with the log. version: Slot.SEGMENTS_VERSION. Raises CorruptLog, OSError."""
    found: list[AbortedTransaction] = []
    bases = reader.base_offsets(version)
    for base in bases[max(bisect_right(bases, fetch_offset) - 1, 0) :]:
        if base != bases[-1] and base not in _indexed(reader):
            continue
        index = reader.index(base, files.TXN_INDEX)
        if index is None:
            continue
        data = os.pread(index.fd, index.size(), 0)
        if len(data) > LONG_BYTES:
            data = needed_entries(data, fetch_offset, upper_offset)
        for entry in parse_entries(data, files.path(reader.folder, base, files.TXN_INDEX)):
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return sorted(found, key=lambda entry: entry.first_offset)
    return sorted(found, key=lambda entry: entry.first_offset)


def needed_entries(data: bytes, fetch_offset: int, upper_offset: int) -> bytes:
    """The entries of a file that `aborted_transactions` needs: those with records in the range up
    to the entry that ends the search, and that one; all entries if one has an unknown version."""
    entries = np.frombuffer(data, ENTRIES, len(data) // ENTRY.size)
    if (entries["version"] > VERSION).any():
        return data
    ends = np.flatnonzero(entries["stable"] >= upper_offset)[:1]
    if len(ends):
        entries = entries[: ends[0] + 1]
    needed = (entries["last"] >= fetch_offset) & (entries["first"] < upper_offset)
    needed[-1:] = True
    return entries[needed].tobytes()


def _indexed(reader: LogReader) -> frozenset[int]:
    """Closed segments that have a transaction index: listed once for each version of the list of
    segments."""
    if reader.transaction_indexes is None:
        with os.scandir(reader.folder) as entries:
            bases = (files.base_offset_of(e.name) for e in entries if e.name.endswith(files.TXN_INDEX))
            reader.transaction_indexes = frozenset(base for base in bases if base is not None)
    return reader.transaction_indexes
