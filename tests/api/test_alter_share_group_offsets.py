"""AlterShareGroupOffsets of very many partitions."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.alter_share_group_offsets import altered, starts
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol import slices
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.slices import Work
from tests.control.fakes import world


def test_the_altered_partitions_of_a_long_answer_are_collected_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of a million partitions took 160 ms, in one callback."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    parts = [AlterShareGroupOffsetsResponsePartition(index, 3 * (index % 2), None) for index in range(1000)]
    answers = [AlterShareGroupOffsetsResponseTopic(name, bytes(16), parts) for name in ("t", "u", "t")]
    answers.append(AlterShareGroupOffsetsResponseTopic("unknown", bytes(16), parts[1:2]))
    work = Work(lambda: altered(answers))
    found = work.run_slice()
    while not work.done:
        found = work.run_slice()
    assert found == altered(answers) == {"t": set(range(0, 1000, 2)), "u": set(range(0, 1000, 2))}
    assert work.slices > 3 * len(parts) // slices.CHECK_EVERY


def test_a_partition_that_is_named_again_and_again_is_written_once(tmp_path: Path) -> None:
    """400,000 repetitions in one request took minutes: each was a batch of its own."""

    def topic(name: str, *parts: tuple[int, int]) -> AlterShareGroupOffsetsRequestTopic:
        offsets = [AlterShareGroupOffsetsRequestPartition(*part) for part in parts]
        return AlterShareGroupOffsetsRequestTopic(name, offsets)

    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("t", 2)]))
        topics = [
            topic("t", (0, 5), (1, 6), (0, 7), (2, 8), (-1, 9)),
            topic("none", (0, 1)),
            topic("t", (1, 4)),
        ]
        topic_id = made.broker.catalogue.topics["t"].topic_id
        found = starts(made.broker, "g", topics)
        assert found == {ShareKey("g", topic_id, 0): 7, ShareKey("g", topic_id, 1): 4}
