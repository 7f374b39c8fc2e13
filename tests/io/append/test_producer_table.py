"""The table of producers returns what it holds, however often it is read between changes."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from kbroker.io.append import producer_table
from kbroker.io.append.producer_table import EndTxnMarker, ProducerTable
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.ipc.messages import ProducerState
from kbroker.kernels import producers as kernel
from kbroker.kernels.producer_rows import Producer
from tests.io.files.snapshot_bytes import encode

SLOTS = 5


def entry(producer_id: int, draw: random.Random) -> ProducerEntry:
    batches = [BatchMetadata(n, n + draw.randrange(9), n, n, 1000 + n) for n in range(draw.randrange(6))]
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=draw.randrange(5),
        coordinator_epoch=draw.randrange(-1, 3),
        last_timestamp=draw.randrange(2000),
        current_txn_first_offset=draw.choice((-1, 7)),
        batches=tuple(batches),
    )


def shown(found: ProducerEntry) -> ProducerState:
    return ProducerState(
        found.producer_id,
        found.producer_epoch,
        found.last_sequence,
        found.last_timestamp,
        found.coordinator_epoch,
        found.current_txn_first_offset,
    )


def states(table: ProducerTable, slot: int) -> list[ProducerState]:
    return [ProducerState(*each) for each in table.states(slot)]


def change(table: ProducerTable, entries: dict[tuple[int, int], ProducerEntry], draw: random.Random) -> None:
    slot, producer_id = draw.randrange(SLOTS), draw.randrange(400)
    key = slot, producer_id
    what = draw.randrange(8)
    if what == 0:
        table.drop(slot)
        for each in [each for each in entries if each[0] == slot]:
            del entries[each]
    elif what == 1:
        expired = table.expire(before := draw.randrange(200))
        idle = [k for k, e in entries.items() if e.last_timestamp < before and e.current_txn_first_offset < 0]
        assert expired == sorted({slot for slot, _ in idle})
        for each in idle:
            del entries[each]
    elif key in entries:
        table.remove(slot, producer_id)
        del entries[key]
    elif what == 2:  # as the drain does it
        table.make_room(1)
        row = kernel.claim(table.rows, slot, producer_id)
        table.rows[row, Producer.EPOCH] = 3
        entries[key] = ProducerEntry(producer_id, 3, -1, -1, -1, ())
    else:
        entries[key] = entry(producer_id, draw)
        table.put(slot, entries[key])


def test_the_states_of_a_partition_are_those_of_its_producers_in_order_of_their_ids() -> None:
    draw = random.Random(5)
    table, reported = ProducerTable(16), dict[tuple[int, int], ProducerEntry]()
    for _ in range(2000):
        change(table, reported, draw)
        assert table.count == len(reported)
        for _ in range(draw.randrange(4)):
            slot = draw.randrange(SLOTS)
            expected = [reported[key] for key in sorted(reported) if key[0] == slot]
            assert states(table, slot) == list(map(shown, expected))
            assert table.entries(slot) == expected
            assert table.snapshot(slot) == encode(expected)
            after, limit = draw.randrange(-1, 400), draw.randrange(1, 9)
            page = [shown(each) for each in expected if each.producer_id > after][:limit]
            assert [ProducerState(*each) for each in table.states(slot, after, limit)] == page


def test_a_listed_producers_later_appends_are_reported() -> None:
    table, draw = ProducerTable(), random.Random(1)
    for producer_id in (2, 1):
        table.put(0, entry(producer_id, draw))
    assert table.states(0) == table.states(0)
    table.rows[kernel.find(table.rows, 0, 2), Producer.LAST_TIMESTAMP] = 5000
    assert [each.last_timestamp == 5000 for each in states(table, 0)] == [False, True]


def test_producers_are_counted_without_a_look_at_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second, and a client may make millions."""
    table = ProducerTable()
    for producer_id in (1, 2, 2, 3):
        table.put(0, ProducerEntry(producer_id, 0))
    table.remove(0, 3)
    monkeypatch.setattr(table, "rows", table.rows[-1:])
    assert table.count == 2


def test_no_object_is_made_for_each_producer_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ProducerTable()
    table.put(0, entry(1, random.Random(1)))
    expected = encode(table.entries(0))
    monkeypatch.setattr(producer_table, "_entry", None)
    assert table.snapshot(0) == expected
    assert table.snapshot(1) == encode([])


def test_a_removed_producer_hides_no_other_one() -> None:
    """Of those whose row was searched for beyond its own."""
    table = ProducerTable(64)
    for producer_id in range(30):
        table.put(1, ProducerEntry(producer_id, 0))
    for producer_id in range(0, 30, 2):
        table.remove(1, producer_id)
    assert [each for each in range(30) if table.get(1, each) is not None] == list(range(1, 30, 2))


def colliding(count: int) -> list[int]:
    """Producer ids to which a multiplication and a shift without a key gave one place of a
    table."""
    modulus = 1 << 64
    back = pow(0x2545F4914F6CDD1D * 1000003, -1, modulus)
    ids = ((number << 49) * back % modulus for number in range(1, 3 * count))
    return [each for each in ids if each < 1 << 63][:count]


def test_chosen_producer_ids_have_places_of_their_own() -> None:
    """Clients may choose them; each search would read all of a long run of rows."""
    table = ProducerTable()
    for producer_id in colliding(4000):
        table.put(2, ProducerEntry(producer_id, 0))
    free = np.flatnonzero(table.rows[:, Producer.KEY] == 0)
    assert np.diff(free).max() < 400


def test_no_transaction_is_open_after_its_end() -> None:
    table = ProducerTable()
    table.put(0, replace(entry(1, random.Random(1)), current_txn_first_offset=40))
    assert [each.current_txn_start_offset for each in states(table, 0)] == [40]
    assert table.end_transaction(0, EndTxnMarker(1, 3, True, 0, 5000, 44)) == 40
    assert [each.current_txn_start_offset for each in states(table, 0)] == [-1]
    assert [each.current_txn_first_offset for each in table.entries(0)] == [-1]
    assert table.end_transaction(0, EndTxnMarker(1, 3, True, 0, 5000, 45)) == -1


def test_the_open_transactions_of_a_partition_are_in_their_order() -> None:
    table, draw = ProducerTable(), random.Random(1)
    for producer_id, first in ((1, 40), (2, 30), (3, -1)):
        table.put(0, replace(entry(producer_id, draw), current_txn_first_offset=first))
    table.put(1, replace(entry(4, draw), current_txn_first_offset=5))
    assert table.open_transactions(0) == [(30, 2), (40, 1)]
    assert table.is_open(0, 30, 2)
    assert not any(table.is_open(0, *each) for each in ((40, 2), (5, 4), (0, 9)))


def test_a_marker_of_a_newer_epoch_begins_the_sequences_again() -> None:
    table = ProducerTable()
    before = replace(entry(1, random.Random(1)), producer_epoch=3, batches=(BatchMetadata(4, 5, 10, 11, 9),))
    table.put(0, before)
    table.end_transaction(0, EndTxnMarker(1, 3, True, 0, 5000, 44))
    assert table.entries(0)[0].batches == before.batches
    table.end_transaction(0, EndTxnMarker(1, 4, False, 0, 5000, 45))
    assert (table.entries(0)[0].producer_epoch, table.entries(0)[0].batches) == (4, ())
