"""What a waiting share fetch could be given is counted once; aborted records are not given."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import reading
from kbroker.control.share.reading import (
    Aborted,
    Deliverable,
    Originals,
    Piece,
    offset_at,
    read_originals,
    read_pieces,
)
from kbroker.ipc.layout import Slot
from kbroker.log.transaction_index import AbortedTransaction
from kbroker.log.walk import PlacedBatch, walk
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import NewRecord, build_batch, read_batches
from tests.control.fakes import world

RECORD = (None, b"x" * 100, (), 1000)
FAR = 1 << 30


def test_a_fetch_that_waits_counts_on_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[int] = []

    def noted(reader: Any, offset: int, *end: int) -> Iterator[PlacedBatch]:
        begins.append(offset)
        return walk(reader, offset, *end)

    monkeypatch.setattr(reading, "walk", noted)

    async def body() -> None:
        await create_topics(made.broker, [NewTopic("t")])
        partition = made.broker.catalogue.topics["t"].partitions[0]
        counted = Deliverable(made.broker)
        found: list[int] = []
        for _ in range(4):
            made.worker.append(partition, RECORD, RECORD)
            found.append(await counted.bytes_from(partition, 0, FAR, False))
        assert begins == [0, 2, 4, 6]
        assert found == [found[0] * times for times in (1, 2, 3, 4)]
        assert await counted.bytes_from(partition, 0, found[0], False) >= found[0]
        assert await counted.bytes_from(partition, 0, FAR, False) == found[-1]
        assert len(begins) == 4  # there is nothing new to look at
        assert await counted.bytes_from(partition, 2, FAR, False) == found[2]
        assert begins[-1] == 2  # from another offset it is another count

    with world(tmp_path) as made:
        asyncio.run(body())


@pytest.mark.parametrize(("changes", "found"), [([0], 1), ([2, 0], 1), ([1], 0)])
def test_a_fetch_gets_nothing_of_segments_that_are_being_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[int], found: int
) -> None:
    """Records of aborted transactions, whose index was empty for a moment. changes: of the
    segments' version during each read."""

    async def body() -> list[Piece]:
        await create_topics(made.broker, [NewTopic("t")])
        partition = made.broker.catalogue.topics["t"].partitions[0]
        made.worker.append(partition, RECORD)
        words = made.broker.shared.slots[partition.slot]
        words[Slot.LAST_STABLE] = words[Slot.HIGH_WATERMARK]

        def changed(*_: object) -> list[Any]:
            words[Slot.SEGMENTS_VERSION] += changes.pop(0)
            return []

        monkeypatch.setattr(reading, "aborted_transactions", changed)
        return await read_pieces(made.broker, partition, 0, FAR, True)

    with world(tmp_path) as made:
        pieces = asyncio.run(body())
    assert (len(pieces), changes) == (found, [])


def test_whole_batches_are_read_up_to_the_bytes_and_at_least_one(tmp_path: Path) -> None:
    async def body() -> None:
        await create_topics(made.broker, [NewTopic("t")])
        partition = made.broker.catalogue.topics["t"].partitions[0]
        for _ in range(3):
            made.worker.append(partition, RECORD)
        size = len((await read_pieces(made.broker, partition, 0, FAR, False))[0].data)
        found = [
            [each.first for each in await read_pieces(made.broker, partition, 0, max_bytes, False)]
            for max_bytes in (1, size, 2 * size - 1, 2 * size, 3 * size)
        ]
        assert found == [[0], [0], [0], [0, 1], [0, 1, 2]]
        assert await read_pieces(made.broker, partition, 3, FAR, False) == []

    with world(tmp_path) as made:
        asyncio.run(body())


def test_a_time_leads_to_the_first_record_from_it_on_or_to_the_end(tmp_path: Path) -> None:
    async def body() -> list[int]:
        await create_topics(made.broker, [NewTopic("t")])
        partition = made.broker.catalogue.topics["t"].partitions[0]
        for timestamp_ms in (1000, 2000):
            made.worker.append(partition, (None, b"x", (), timestamp_ms))
        return [await offset_at(made.broker, partition, at_ms) for at_ms in (0, 1000, 1001, 2000, 2001)]

    with world(tmp_path) as made:
        assert asyncio.run(body()) == [0, 0, 1, 1, 2]


def originals(folder: Path, max_bytes: int, *records: NewRecord) -> Originals:
    """The copies of the first records of a log with each record in a compressed batch."""

    async def body() -> Originals:
        await create_topics(made.broker, [NewTopic("t")])
        partition = made.broker.catalogue.topics["t"].partitions[0]
        for each in records:
            made.worker.append(partition, each, codec=Codec.ZSTD)
        return await read_originals(made.broker, partition, 0, len(records) - 1, max_bytes)

    with world(folder) as made:
        return asyncio.run(body())


def test_copies_have_a_bound_of_what_they_take_decompressed(tmp_path: Path) -> None:
    """A megabyte of batches may stand for gigabytes."""
    found = originals(tmp_path, 1000, *[(None, b"x" * 2000, (), 1000)] * 3)
    assert (found.last, list(found.records)) == (0, [0])


def test_a_batch_of_very_many_headers_has_no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "COPIED_HEADERS", 2)
    found = originals(tmp_path, FAR, (b"a", None, [("", None)] * 3, 1000), (b"b", None, (), 1000))
    assert (found.last, list(found.records)) == (1, [1])


OFFSETS = st.integers(0, 12)


@given(
    st.lists(st.builds(AbortedTransaction, st.integers(7, 8), OFFSETS, OFFSETS, OFFSETS), max_size=8),
    st.integers(-1, 8),
    OFFSETS,
)
def test_a_batch_is_aborted_if_it_lies_in_an_aborted_transaction_of_its_producer(
    found: list[AbortedTransaction], producer_id: int, offset: int
) -> None:
    """Each batch was compared with all transactions, of which there may be a million."""
    found.sort(key=lambda each: each.first_offset)
    data = build_batch([RECORD], base_offset=offset, producer=(producer_id, 0, 0), transactional=True)
    (batch,) = read_batches(data)
    assert Aborted(found).holds(batch) == any(
        each.producer_id == producer_id and each.first_offset <= offset <= each.last_offset for each in found
    )
    (batch,) = read_batches(build_batch([RECORD], base_offset=offset, producer=(producer_id, 0, 0)))
    assert not Aborted(found).holds(batch)
