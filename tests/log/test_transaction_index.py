"""Transaction indexes are appended to, cut and checked as Kafka's."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.log import transaction_index
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.transaction_index import (
    AbortedTransaction,
    aborted_transactions,
    is_damaged,
    needed_entries,
    parse_entries,
    seal,
)
from tests.log.batch_bytes import batch
from tests.log.folder import Folder

FIRST, SECOND = AbortedTransaction(1, 10, 15, 12), AbortedTransaction(2, 12, 20, 21)


def test_the_file_appears_with_its_first_entry_and_is_cut_by_offset(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert transaction_index.read_index(folder, 10) == []
    transaction_index.truncate_index(folder, 10, 0)
    assert not list(tmp_path.iterdir())
    transaction_index.append_entry(folder, 10, FIRST)
    transaction_index.append_entry(folder, 10, SECOND)
    assert transaction_index.read_index(folder, 10) == [FIRST, SECOND]
    transaction_index.truncate_index(folder, 10, 20)
    assert transaction_index.read_index(folder, 10) == [FIRST]
    with open(tmp_path / f"{10:020d}.txnindex", "ab") as index:
        index.write(b"torn")
    transaction_index.truncate_index(folder, 10, 16)
    assert (tmp_path / f"{10:020d}.txnindex").stat().st_size == 34
    transaction_index.truncate_index(folder, 10, 15)
    assert transaction_index.read_index(folder, 10) == []


def test_an_entry_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction_index.append_entry(str(tmp_path), 10, FIRST)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    with pytest.raises(OSError, match="No space left"):
        transaction_index.append_entry(str(tmp_path), 10, SECOND)
    monkeypatch.undo()
    assert (tmp_path / f"{10:020d}.txnindex").read_bytes() == FIRST.pack()


def test_an_entry_may_end_where_the_segment_begins(tmp_path: Path) -> None:
    transaction_index.append_entry(str(tmp_path), 10, AbortedTransaction(1, 5, 10, 11))
    assert transaction_index.is_sane(str(tmp_path), 10)


def test_entries_before_the_segment_are_insane(tmp_path: Path) -> None:
    transaction_index.append_entry(str(tmp_path), 10, FIRST)
    assert transaction_index.is_sane(str(tmp_path), 10)
    transaction_index.append_entry(str(tmp_path), 30, FIRST)
    assert not transaction_index.is_sane(str(tmp_path), 30)


@pytest.mark.parametrize("at", range(0, 34, 3))
def test_a_sealed_index_with_a_flipped_bit_is_insane(tmp_path: Path, at: int) -> None:
    folder = str(tmp_path)
    transaction_index.append_entry(folder, 10, SECOND)
    path = tmp_path / f"{10:020d}.txnindex"
    seal(str(path))
    if is_damaged(str(path), b""):  # this file system keeps attributes
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)
        with suppress(CorruptLog):
            assert not transaction_index.is_sane(folder, 10)
        content[at] ^= 1
        path.write_bytes(content)
    assert transaction_index.is_sane(folder, 10)
    transaction_index.append_entry(folder, 10, AbortedTransaction(3, 21, 22, 23))
    seal(str(path))
    assert transaction_index.is_sane(folder, 10)


def test_an_unsealed_index_is_used_unchanged(tmp_path: Path) -> None:
    transaction_index.append_entry(str(tmp_path), 10, FIRST)
    seal(str(tmp_path / "missing.txnindex"))
    assert transaction_index.is_sane(str(tmp_path), 10)


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


def test_the_search_ends_where_the_stable_offset_has_passed_what_was_fetched(tmp_path: Path) -> None:
    """Not where a marker lies beyond it: another transaction may have been open there."""
    folder = Folder(tmp_path / "t-0")
    for base in (0, 10, 20):
        folder.segment(base, [batch(n) for n in range(base, base + 10)])
    first, second = AbortedTransaction(1, 5, 18, 3), AbortedTransaction(2, 3, 19, 9)
    folder.file(10, ".txnindex").write_bytes(first.pack() + second.pack())
    folder.file(20, ".txnindex").write_bytes(b"\0\1" + bytes(32))  # of a version that is refused
    reader = LogReader(str(folder.path), OpenFiles())
    assert aborted_transactions(reader, 0, 9) == [second, first]
    with pytest.raises(CorruptLog):
        aborted_transactions(reader, 0, 10)


def test_transactions_come_in_the_order_of_their_first_records(tmp_path: Path) -> None:
    """Consumers take them off their list in this order; the index has that of the markers."""
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(n) for n in range(10)])
    later, earlier = AbortedTransaction(1, 5, 7, 2), AbortedTransaction(2, 2, 8, 9)
    folder.file(0, ".txnindex").write_bytes(later.pack() + earlier.pack())
    reader = LogReader(str(folder.path), OpenFiles())
    assert aborted_transactions(reader, 0, 9) == aborted_transactions(reader, 0, 10) == [earlier, later]


def test_an_entry_has_kafkas_bytes() -> None:
    entry = AbortedTransaction(5, 6, 7, 8)
    assert entry.pack().hex() == "0000" + "".join(f"{n:016x}" for n in (5, 6, 7, 8))
    assert parse_entries(entry.pack() + b"torn", "x") == [entry]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(CorruptLog, match=r"x\.txnindex.*version 1"):
        parse_entries(b"\0\1" + bytes(32), "x.txnindex")


OFFSETS = st.integers(0, 12)


@given(
    st.lists(st.builds(AbortedTransaction, OFFSETS, OFFSETS, OFFSETS, OFFSETS), max_size=8),
    OFFSETS,
    OFFSETS,
    st.binary(max_size=33),
)
def test_the_needed_entries_of_a_long_index_give_the_same_as_all(
    entries: list[AbortedTransaction], fetch_offset: int, upper_offset: int, torn: bytes
) -> None:
    """A million entries took the network process a second for each fetch."""
    data = b"".join(entry.pack() for entry in entries)
    needed = needed_entries(data + torn, fetch_offset, upper_offset)
    assert searched(needed, fetch_offset, upper_offset) == searched(data, fetch_offset, upper_offset)


def searched(data: bytes, fetch_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
    """The entries that a search finds in a file, and whether it ends there."""
    found: list[AbortedTransaction] = []
    for entry in parse_entries(data, "i"):
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return found, True
    return found, False


def test_an_unknown_version_in_a_long_index_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_index, "LONG_BYTES", 0)
    folder = Folder(tmp_path / "t-0")
    folder.segment(0, [batch(n) for n in range(10)])
    known = AbortedTransaction(1, 0, 3, 2)
    folder.file(0, ".txnindex").write_bytes(known.pack())
    assert aborted_transactions(LogReader(str(folder.path), OpenFiles()), 0, 10) == [known]
    folder.file(0, ".txnindex").write_bytes(known.pack() + b"\0\1" + bytes(32))
    with pytest.raises(CorruptLog):
        aborted_transactions(LogReader(str(folder.path), OpenFiles()), 0, 10)
