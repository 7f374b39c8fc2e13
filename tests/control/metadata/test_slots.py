"""Slot numbers, generations and the slot line that control writes."""

import random
from pathlib import Path

import numpy as np
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.slots import Slots
from kbroker.ipc.layout import ProcessLine, Slot, SlotFlag
from kbroker.ipc.shared import Region
from kbroker.protocol.errors import KafkaError


def words(count: int = 4) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    return Slot.table(count)


def process_line() -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    return ProcessLine.row()


def mapped_bytes(region: Region) -> int:
    """Bytes of a region that have pages in this process."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.startswith(f"{region.address:x}-"):
            return next(int(one.split()[1]) << 10 for one in lines if one.startswith("Rss:"))
    raise AssertionError("the region is not mapped")


def partition(slot: int, generation: int = 1, worker: int = 0) -> Replica:
    return Replica("t", 0, "/d", slot, generation, worker=worker)


def config(**overrides: str) -> TopicConfig:
    return TopicConfig.resolve(
        {key.replace("_", "."): value for key, value in overrides.items()}, BrokerConfig({})
    )


def test_the_lowest_free_slot_is_taken_with_a_fresh_generation() -> None:
    slots = Slots(words(), 10, process_line())
    assert slots.take(2) == [(0, 10), (1, 11)]
    slots.release([0])
    assert slots.take(2) == [(0, 12), (2, 13)]


def test_stored_slots_are_kept_and_clashing_ones_moved() -> None:
    slots = Slots(words(), 10, process_line())
    kept, clash, outside = partition(2, 5), partition(2, 6), partition(99, 7)
    assert slots.claim([kept, clash, outside]) == [clash, outside]
    assert (kept.slot, kept.generation) == (2, 5)
    assert {clash.slot, outside.slot} == {0, 1}
    assert {clash.generation, outside.generation} == {10, 11}


def test_a_full_table_refuses_and_takes_nothing() -> None:
    slots = Slots(words(2), 1, process_line())
    with pytest.raises(KafkaError, match=r"kbroker\.max\.partitions"):
        slots.take(3)
    assert len(slots.take(2)) == 2


def test_a_written_slot_carries_what_appends_are_checked_against() -> None:
    table = words()
    slots = Slots(table, 1, process_line())
    slots.write(
        [partition(1, 5, worker=3)],
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
    slots.configure([partition(1)], config(), internal=False)
    assert line[Slot.FLAGS] == 0
    assert line[Slot.COMPRESSION] == -1
    assert line[Slot.GENERATION] == 5


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("message_timestamp_before_max_ms", Slot.TIMESTAMP_BEFORE_MAX_MS),
        ("message_timestamp_after_max_ms", Slot.TIMESTAMP_AFTER_MAX_MS),
        ("min_insync_replicas", Slot.MIN_IN_SYNC_REPLICAS),
        ("max_message_bytes", Slot.MAX_MESSAGE_BYTES),
    ],
)
def test_a_limit_of_the_topic_has_a_word_of_its_own(setting: str, word: int) -> None:
    """Network processes and IO workers read it there."""
    before, after = words(), words()
    Slots(before, 1, process_line()).write([partition(1)], config(), internal=False)
    Slots(after, 1, process_line()).write([partition(1)], config(**{setting: "7"}), internal=False)
    assert [each for each in range(Slot.WORDS) if before[1, each] != after[1, each]] == [word]
    assert after[1, word] == 7


@pytest.mark.parametrize("change", ["write", "configure"])
@pytest.mark.parametrize(
    ("overrides", "internal", "replicated", "flags"),
    [
        ({}, False, False, 0),
        ({}, False, True, SlotFlag.REPLICATED),
        ({"write_caching": "false"}, False, False, SlotFlag.DURABLE),
        ({"write_caching": "false"}, False, True, SlotFlag.DURABLE | SlotFlag.REPLICATED),
        ({"cleanup_policy": "compact,delete"}, False, False, SlotFlag.COMPACTED),
        ({"message_timestamp_type": "LogAppendTime"}, False, False, SlotFlag.LOG_APPEND_TIME),
        ({}, True, False, SlotFlag.INTERNAL),
    ],
)
def test_each_flag_of_a_slot_has_its_own_reason(
    change: str, overrides: dict[str, str], internal: bool, replicated: bool, flags: int
) -> None:
    table = words()
    getattr(Slots(table, 1, process_line()), change)(
        [partition(1)], config(**overrides), internal, replicated
    )
    assert table[1, Slot.FLAGS] == flags


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_slots_written_together_are_as_if_written_one_by_one(count: int) -> None:
    replicas = [partition(slot, 10 + slot, worker=slot % 3) for slot in (6, 1, 3, 0, 5)[:count]]
    together, each = words(8), words(8)
    settings = config(max_message_bytes="77", min_insync_replicas="2", compression_type="gzip")
    line = process_line()
    Slots(together, 1, line).write(replicas, settings, True, True)
    for replica in replicas:
        Slots(each, 1, process_line()).write([replica], settings, True, True)
    assert np.array_equal(together, each)
    assert np.count_nonzero(together[:, Slot.GENERATION]) == count
    assert bool(line[ProcessLine.SLOTS_ASSIGNED]) == (count > 0)


def test_a_restarted_control_finds_the_owners_of_slots() -> None:
    table, line = words(), process_line()
    first = Slots(table, 1, line)
    assert not first.in_use
    first.write([partition(1, 5, worker=3)], config(), internal=False)
    successor = Slots(table, 9, line)
    assert successor.in_use
    assert successor.owner(partition(1, 5)) == 3
    assert successor.owner(partition(1, 6)) is None


@pytest.mark.parametrize("kept", [[], [1], [0, 3]])
def test_slots_are_taken_and_released_as_from_a_sorted_list(kept: list[int]) -> None:
    """Beside a plain list of all free slots."""
    slots, choice = Slots(words(6), 1, process_line()), random.Random(len(kept))
    slots.claim([partition(slot, 5) for slot in kept], reserved=[77])
    free, taken = sorted(set(range(6)) - set(kept)), [*kept, 77]
    for _ in range(300):
        if taken and choice.random() < 0.5:
            slot = taken.pop(choice.randrange(len(taken)))
            slots.release([slot])
            free = sorted([*free, *([slot] if slot < 6 else [])])
        elif free:
            ((slot, _),) = slots.take(1)
            assert slot == free.pop(0)
            taken.append(slot)
        else:
            with pytest.raises(KafkaError, match="room for 0 more"):
                slots.take(1)


def test_the_pages_of_unused_slots_are_not_mapped() -> None:
    region = Region(8192 * Slot.STRIDE)
    slots = Slots(region.rows(Slot, 8192), 1, process_line())
    assert not slots.in_use
    slots.claim([partition(1, 5)])
    slots.take(3)
    assert mapped_bytes(region) == 0


def test_a_group_is_only_read_between_two_writes() -> None:
    table = words()
    table[2, Slot.SEQUENCE] = 4
    table[2, Slot.LOG_END] = 9
    assert Slots(table, 1, process_line()).group(2)[Slot.LOG_END] == 9


@pytest.mark.timeout(120)
def test_a_group_whose_writer_died_within_it_blocks_no_reader() -> None:
    """Only the worker's successor ends it, and that one needs control to begin."""
    table = words()
    table[2, Slot.SEQUENCE] = 5
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        Slots(table, 1, process_line()).group(2)
