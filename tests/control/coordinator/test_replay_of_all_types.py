"""A load that decodes only the last record of each key gives the same state as one that decodes
every record, for records of all types in one group."""

from functools import cache
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbroker.control.groups.offset_record import CommittedOffset, offset_record, offset_tombstone
from kbroker.control.groups.shard import GroupShard
from kbroker.protocol.compression import Codec
from kbroker.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS
from kbroker.protocol.record_types import decode_key, encode_key, encode_value, record_type
from tests.control.coordinator.replayed_logs import (
    PARTITION,
    Pair,
    batch,
    decoded,
    loaded,
    marker,
    numbered,
    pair,
    plain,
    segment,
    state_of_groups,
)
from tests.control.groups.coordinator import Coordinator
from tests.fuzz.odd_logs import group_records

GROUPS = ("g", "g", "g", "h")
UNKNOWN_VERSION = b"\x7f\xff"


def renamed(key: bytes, group: str) -> bytes:
    """The key of the same record of another group."""
    parsed = decode_key(CONSUMER_OFFSETS, key)
    setattr(parsed, parsed.SCHEMA.fields[0].name, group)
    return encode_key(parsed)


@cache
def history(group: str) -> list[Pair]:
    """Groups of all types, one after the other, as one group."""
    return [(renamed(each.key, group), each.value) for each in group_records()]


def part_of_a_history(chance: Random) -> list[Pair]:
    """Records in the order of a real log; some are deleted, or have an unknown version."""
    whole = history(chance.choice(GROUPS))
    start, odd = chance.randrange(len(whole)), chance.randrange(6)
    records = whole[start : start + chance.randint(1, 12)]
    if odd == 0:
        return [(key, None) for key, _ in records]
    if odd == 1:
        return [(key, value and UNKNOWN_VERSION + value[2:]) for key, value in records]
    return records[::2] if odd == 2 else records


def one_of_a_history(chance: Random) -> list[Pair]:
    key, value = chance.choice(history(chance.choice(GROUPS)))
    return [(key, value if chance.random() < 0.6 else None)]


def offset(chance: Random) -> list[Pair]:
    number, odd = chance.randrange(1 << 40), chance.randrange(8)
    group, partition = chance.choice(GROUPS), chance.choice((0, 0, 1))
    if odd == 0:
        return [pair(offset_tombstone(group, "t", partition))]
    expires = number if odd == 1 else -1  # written in an older version
    topic_id = bytes(16) if odd < 4 else bytes(range(16))
    committed = CommittedOffset(number, number % 7 - 1, "m" * (number % 3), number, expires, topic_id)
    key, value = pair(offset_record(group, "t", partition, committed))
    return [(key, value and UNKNOWN_VERSION + value[2:] if odd == 2 else value)]


def classic(chance: Random) -> list[Pair]:
    members = [MemberMetadata(f"m{number}") for number in range(chance.randrange(3))]
    value = encode_value(GroupMetadataValue("consumer", chance.randrange(9), "range", None, 5, members), 3)
    odd = chance.choice((None, UNKNOWN_VERSION + value[2:], value, value, value))
    return [(encode_key(GroupMetadataKey(chance.choice(GROUPS))), odd)]


def batches(chance: Random) -> bytes:
    """A batch of a random kind."""
    kind, producer = chance.randrange(16), chance.randint(1, 2)
    codec = chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP))
    if kind == 0:
        return marker(producer, chance.random() < 0.7)
    if kind == 1:
        return batch(offset(chance), producer, codec)
    records = chance.choice((offset, offset, offset, classic, one_of_a_history, part_of_a_history))
    return batch(records(chance), codec=codec if kind == 2 else Codec.NONE)


def state(shard: GroupShard) -> object:
    return state_of_groups(shard), plain(shard.table.groups)


@given(seed=st.integers(0, 1 << 64), rows=st.sampled_from((5, 16, 256)))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_group_with_records_of_all_types_is_as_after_a_full_replay(
    tmp_path: Path, seed: int, rows: int
) -> None:
    """KIP-848, share and streams groups, too: their records are replayed in order."""
    chance = Random(seed)
    for _ in range(10):
        segment(tmp_path, numbered([batches(chance) for _ in range(chance.randint(3, 16))]))
        full, short = Coordinator().shard, Coordinator().shard
        records = decoded(tmp_path, full)
        read, items = loaded(tmp_path, short, GroupShard.last_value_types, rows, 1 << 16)
        assert items <= read == records
        assert state(short) == state(full)
        for producer, commit in ((1, True), (2, False)):
            for shard in (full, short):
                shard.replay_end_of_transaction(PARTITION, producer, commit)
            assert state(short) == state(full)


def test_the_histories_have_every_type_that_is_written() -> None:
    written = {record_type(key) for key, _ in history("g") if key is not None}
    not_written = {0, 4}  # of brokers before 0.9, of Apache Kafka 4.0
    assert set(CONSUMER_OFFSETS) - written <= not_written
