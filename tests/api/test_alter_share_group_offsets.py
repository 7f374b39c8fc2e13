"""AlterShareGroupOffsets of very many partitions."""

import pytest

from kbroker.api.alter_share_group_offsets import altered
from kbroker.protocol import slices
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.slices import Work


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
