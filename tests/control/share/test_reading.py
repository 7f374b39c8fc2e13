"""What a waiting share fetch could be given is counted once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import reading
from kbroker.control.share.reading import Deliverable
from kbroker.log.walk import PlacedBatch, walk
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
