"""Slot numbers, generations and the slot line that control writes."""

import numpy as np
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.slots import Slots
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.protocol.errors import KafkaError


def words(count: int = 4) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    return Slot.table(count)


def partition(slot: int, generation: int = 1, worker: int = 0) -> Replica:
    return Replica("t", 0, "/d", slot, generation, worker=worker)


def config(**overrides: str) -> TopicConfig:
    return TopicConfig.resolve(
        {key.replace("_", "."): value for key, value in overrides.items()}, BrokerConfig({})
    )


def test_the_lowest_free_slot_is_taken_with_a_fresh_generation() -> None:
    slots = Slots(words(), 10)
    assert slots.take(2) == [(0, 10), (1, 11)]
    slots.release([0])
    assert slots.take(2) == [(0, 12), (2, 13)]


def test_stored_slots_are_kept_and_clashing_ones_moved() -> None:
    slots = Slots(words(), 10)
    kept, clash, outside = partition(2, 5), partition(2, 6), partition(99, 7)
    assert slots.claim([kept, clash, outside]) == [clash, outside]
    assert (kept.slot, kept.generation) == (2, 5)
    assert {clash.slot, outside.slot} == {0, 1}
    assert {clash.generation, outside.generation} == {10, 11}


def test_a_full_table_refuses_and_takes_nothing() -> None:
    slots = Slots(words(2), 1)
    with pytest.raises(KafkaError, match=r"kbroker\.max\.partitions"):
        slots.take(3)
    assert len(slots.take(2)) == 2


def test_a_written_slot_carries_what_appends_are_checked_against() -> None:
    table = words()
    slots = Slots(table, 1)
    slots.write(
        partition(1, 5, worker=3),
        config(cleanup_policy="compact", message_timestamp_type="LogAppendTime", write_caching="false",
               max_message_bytes="77", compression_type="zstd",
               compression_zstd_level="7"),
        internal=True,
    )  # fmt: skip
    line = table[1]
    assert line[Slot.GENERATION] == 5
    assert line[Slot.OWNER] == 3
    assert line[Slot.MAX_MESSAGE_BYTES] == 77
    assert line[Slot.COMPRESSION] == 4
    assert line[Slot.COMPRESSION_LEVEL] == 7
    assert line[Slot.FLAGS] == (
        SlotFlag.COMPACTED | SlotFlag.LOG_APPEND_TIME | SlotFlag.DURABLE | SlotFlag.INTERNAL
    )
    slots.configure(1, config(), internal=False)
    assert line[Slot.FLAGS] == 0
    assert line[Slot.COMPRESSION] == -1
    assert line[Slot.GENERATION] == 5


def test_a_restarted_control_finds_the_owners_of_slots() -> None:
    table = words()
    assert not Slots(table, 1).in_use
    Slots(table, 1).write(partition(1, 5, worker=3), config(), internal=False)
    successor = Slots(table, 9)
    assert successor.in_use
    assert successor.owner(partition(1, 5)) == 3
    assert successor.owner(partition(1, 6)) is None


def test_a_group_is_only_read_between_two_writes() -> None:
    table = words()
    table[2, Slot.SEQUENCE] = 4
    table[2, Slot.LOG_END] = 9
    assert Slots(table, 1).group(2)[Slot.LOG_END] == 9


@pytest.mark.timeout(10)
def test_a_group_whose_writer_died_within_it_holds_nobody_up() -> None:
    """Only the worker's successor ends it, and that one needs control to begin."""
    table = words()
    table[2, Slot.SEQUENCE] = 5
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        Slots(table, 1).group(2)
