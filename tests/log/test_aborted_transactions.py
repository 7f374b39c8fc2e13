"""read_committed gets the aborted transactions that touch what it fetched, by first offset, and no
others."""

from pathlib import Path

import pytest

from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions, parse_entries
from tests.log.batch_bytes import batch
from tests.log.folder import Folder


def test_transactions_are_collected_over_segments_until_the_stable_offset_passes(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(n) for n in range(10)])
    folder.segment(10, [batch(n) for n in range(10, 20)])
    first = AbortedTransaction(1, 0, 3, 2)
    late = AbortedTransaction(2, 2, 11, 8)  # begins in the first segment, its marker is in the second
    between = AbortedTransaction(3, 8, 12, 13)
    folder.file(0, ".txnindex").write_bytes(first.pack())
    folder.file(10, ".txnindex").write_bytes(between.pack()[:0] + late.pack() + between.pack())
    reader = LogReader(str(folder.path), OpenFiles())
    assert aborted_transactions(reader, 0, 20) == [first, late, between]
    assert aborted_transactions(reader, 4, 20) == [late, between]
    assert aborted_transactions(reader, 0, 2) == [first]
    assert aborted_transactions(reader, 12, 20) == [between]
    assert aborted_transactions(reader, 13, 20) == []


def test_marker_in_a_later_segment_is_found_whatever_lies_between(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t-0")
    for base in (0, 10, 20, 30):
        folder.segment(base, [batch(n) for n in range(base, base + 10)])
    long = AbortedTransaction(1, 5, 25, 5)
    folder.file(20, ".txnindex").write_bytes(long.pack())
    reader = LogReader(str(folder.path), OpenFiles())
    assert aborted_transactions(reader, 0, 6) == [long]
    assert aborted_transactions(reader, 0, 5) == []
    assert aborted_transactions(reader, 26, 40) == []
    later = AbortedTransaction(
        2, 31, 35, 36
    )  # the last segment is the active one, its index appears any time
    folder.file(30, ".txnindex").write_bytes(later.pack())
    assert aborted_transactions(reader, 0, 40) == [long, later]


def test_an_entry_has_kafkas_bytes() -> None:
    entry = AbortedTransaction(5, 6, 7, 8)
    assert entry.pack().hex() == "0000" + "".join(f"{n:016x}" for n in (5, 6, 7, 8))
    assert parse_entries(entry.pack() + b"torn", "x") == [entry]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(CorruptLog, match=r"x\.txnindex.*version 1"):
        parse_entries(b"\0\1" + bytes(32), "x.txnindex")
