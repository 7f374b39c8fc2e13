"""Transaction indexes are appended to, cut and checked as Kafka's."""

from contextlib import suppress
from pathlib import Path

import pytest

from kbroker.log import transaction_index
from kbroker.log.errors import CorruptLog
from kbroker.log.transaction_index import AbortedTransaction, is_damaged, seal

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


def test_an_index_that_nobody_sealed_is_taken_as_it_is(tmp_path: Path) -> None:
    transaction_index.append_entry(str(tmp_path), 10, FIRST)
    seal(str(tmp_path / "missing.txnindex"))
    assert transaction_index.is_sane(str(tmp_path), 10)
