"""A replay that leaves out the records that later ones cover equals a replay of all records."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbroker.control.coordinator.log_windows import LogWindows
from kbroker.control.groups.offset_record import CommittedOffset, offset_record, offset_tombstone
from kbroker.control.groups.shard import GroupShard
from kbroker.control.transactions.shard import TransactionShard
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.protocol.compression import Codec
from kbroker.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.record_types import encode_key, encode_value
from tests.control.coordinator.replayed_logs import (
    NONE,
    PARTITION,
    Pair,
    batch,
    loaded,
    marker,
    numbered,
    pair,
    segment,
    state_of_groups,
)
from tests.control.groups.coordinator import Coordinator
from tests.control.transactions.world import World
from tests.fuzz.odd_logs import group_records, transaction_records

GROUPS = st.sampled_from(("g", "h", "empty"))
PRODUCERS = st.integers(1, 2)


def offsets() -> st.SearchStrategy[Pair]:
    def made(group: str, partition: int, offset: int, kind: int) -> Pair:
        if kind == 0:
            return pair(offset_tombstone(group, "t", partition))
        key, value = pair(offset_record(group, "t", partition, CommittedOffset(offset, -1, "", offset)))
        assert key is not None
        assert value is not None
        return (key, value[:-3]) if kind == 1 else (b"\0\0" + key[2:] if kind == 2 else key, value)

    return st.builds(made, GROUPS, st.integers(0, 1), st.integers(0, 1 << 40), st.integers(0, 9))


def groups() -> st.SearchStrategy[Pair]:
    def made(group: str, generation: int, members: int, kind: int) -> Pair:
        key = encode_key(GroupMetadataKey(group))
        names = ["m"] * 2 if kind == 1 else [f"m{number}" for number in range(members)]
        value = GroupMetadataValue(
            "consumer", generation, "range", None, 5, [MemberMetadata(each) for each in names]
        )
        return key, None if kind == 0 else encode_value(value, 3)

    return st.builds(made, GROUPS, st.integers(0, 9), st.integers(0, 2), st.integers(0, 5))


def odd() -> st.SearchStrategy[Pair]:
    return st.sampled_from([(None, b"x"), (b"", b"x"), (b"\0\1\x7f\xff", b"x"), (b"\0\1\0\1g", None)])


def others() -> st.SearchStrategy[Pair]:
    return st.sampled_from(range(len(group_records()))).map(lambda number: pair(group_records()[number]))


def damaged(data: bytes) -> bytes:
    """A batch whose last record ends after it."""
    return data[:-1] + b"\2"


def batches(records: st.SearchStrategy[Pair], in_transaction: st.SearchStrategy[Pair]) -> Any:
    several = st.lists(records, min_size=1, max_size=4)
    return st.one_of(
        st.builds(batch, several),
        st.builds(batch, several),
        st.builds(batch, several),
        st.builds(batch, several, codec=st.just(Codec.GZIP)),
        st.builds(batch, several, header=st.just(True)),
        st.builds(batch, several).map(damaged),
        st.builds(batch, st.lists(in_transaction, min_size=1, max_size=2), PRODUCERS),
        st.builds(batch, st.lists(in_transaction, min_size=1, max_size=2), PRODUCERS, st.just(Codec.GZIP)),
        st.builds(marker, PRODUCERS, st.booleans()),
    )


@given(
    data=st.lists(batches(offsets() | offsets() | groups() | odd() | others(), offsets()), max_size=30),
    rows=st.sampled_from((4, 16, 256)),
    max_bytes=st.sampled_from((64, 500, 1 << 16)),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_are_as_after_a_full_replay(
    tmp_path: Path, data: list[bytes], rows: int, max_bytes: int
) -> None:
    segment(tmp_path, numbered(data))
    full, short = Coordinator().shard, Coordinator().shard
    records, items = loaded(tmp_path, full, NONE, 256, 1 << 16)
    fewer, left = loaded(tmp_path, short, GroupShard.last_value_types, rows, max_bytes)
    assert fewer == records
    assert left <= items
    assert state_of_groups(short) == state_of_groups(full)
    for producer, commit in ((1, True), (2, False)):
        for shard in (full, short):
            shard.replay_end_of_transaction(PARTITION, producer, commit)
        assert state_of_groups(short) == state_of_groups(full)


def step(name: str, number: int) -> bytes:
    """A batch of the log below; number: makes values differ."""
    commit = pair(offset_record("g", "t", 0, CommittedOffset(number, -1, "", 0)))
    group = encode_key(GroupMetadataKey("g"))
    value = encode_value(GroupMetadataValue("consumer", number, None, None, 5), 3)
    return {
        "commit": lambda: batch([commit]),
        "compressed": lambda: batch([commit], codec=Codec.GZIP),
        "damaged": lambda: batch([(commit[0], b"\0\4")]),
        "deleted": lambda: batch([(commit[0], None)]),
        "pending": lambda: batch([commit], 1),
        "compressed pending": lambda: batch([commit], 1, Codec.GZIP),
        "committed": lambda: marker(1, True),
        "aborted": lambda: marker(1, False),
        "group": lambda: batch([(group, value)]),
        "no group": lambda: batch([(group, None)]),
        "consumer group": lambda: batch([(b"\0\3" + group[2:], b"\0\0" + number.to_bytes(4))]),
        "old key": lambda: batch([(b"\0\0" + (commit[0] or b"")[2:], commit[1])]),
    }[name]()


STEPS = (
    *("commit", "pending", "committed", "group", "compressed", "damaged", "deleted"),
    *("compressed pending", "aborted", "no group", "consumer group", "old key"),
)


@pytest.mark.parametrize("first", STEPS)
def test_one_offset_is_as_after_a_full_replay(tmp_path: Path, first: str) -> None:
    for second in STEPS:
        for names in (
            ("commit", first, second, "commit"),
            (first, "commit", second, "commit"),
            ("commit", first, "commit", second, "commit", "commit"),
            (first, second, "commit", "committed", "commit"),
        ):
            segment(tmp_path, numbered([step(name, number) for number, name in enumerate(names)]))
            full, short = Coordinator().shard, Coordinator().shard
            loaded(tmp_path, full, NONE, 16, 1 << 16)
            loaded(tmp_path, short, GroupShard.last_value_types, 16, 1 << 16)
            for _ in range(2):
                assert state_of_groups(short) == state_of_groups(full), names
                for shard in (full, short):
                    shard.replay_end_of_transaction(PARTITION, 1, True)


@given(
    picks=st.lists(
        st.tuples(st.integers(0, 1 << 10), st.integers(0, 1 << 10), st.integers(0, 9)), max_size=40
    ),
    rows=st.sampled_from((4, 256)),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_transactional_ids_are_as_after_a_full_replay(
    tmp_path: Path, picks: list[tuple[int, int, int]], rows: int
) -> None:
    known = transaction_records()
    data = []
    for first, second, kind in picks:
        key, value = known[first % len(known)].key, known[second % len(known)].value
        odd_value = value[:-1] if value is not None else None
        data.append(batch([(key, None if kind == 0 else odd_value if kind == 1 else value)]))
    segment(tmp_path, numbered(data))
    full, short = World().shard, World().shard
    loaded(tmp_path, full, NONE, 256, 1 << 16)
    loaded(tmp_path, short, TransactionShard.last_value_types, rows, 1 << 16)
    assert {each.transactional_id: each for each in short.table.all()} == {
        each.transactional_id: each for each in full.table.all()
    }
    assert {each.transactional_id for each in short.table.ongoing()} == {
        each.transactional_id for each in full.table.ongoing()
    }


def offset_batch(offset: int, group: str = "g", producer: int = -1) -> bytes:
    return batch([pair(offset_record(group, "t", 0, CommittedOffset(offset, -1, "", 0)))], producer)


@pytest.mark.parametrize(
    ("between", "items"),
    [
        (offset_batch(5, "h"), 2),
        (marker(1, True), 2),
        (batch([(encode_key(GroupMetadataKey("g")), None)]), 3),
        (offset_batch(5, producer=1), 3),
        (batch([(b"\0\3\0\1g", b"\0\0\0\0\0\0")]), 3),
        (batch([(b"\0\1\0\1h\0\1t\0\0\0\0", b"")], codec=Codec.GZIP), 3),
    ],
)
def test_the_first_offset_is_not_decoded_unless_its_group_may_be_read_between(
    tmp_path: Path, between: bytes, items: int
) -> None:
    data = [offset_batch(1), between, offset_batch(2), offset_batch(2)]
    segment(tmp_path, numbered(data))
    shard = Coordinator().shard
    assert loaded(tmp_path, shard, GroupShard.last_value_types, 16, 1 << 16) == (4, items)
    committed = shard.table.offsets.get("g", "t", 0)
    assert committed is not None
    assert committed.offset == 2


def test_a_log_is_read_up_to_its_torn_tail(tmp_path: Path) -> None:
    whole, torn = numbered([offset_batch(1)] * 3), offset_batch(2)[:-1]
    for tail in (b"", torn, torn[:20], bytes(4096)):
        segment(tmp_path, whole + tail)
        for max_bytes in (64, 1 << 16):
            assert loaded(tmp_path, Coordinator().shard, NONE, 16, max_bytes) == (3, 3)


@pytest.mark.parametrize("change", [{16: 3}, {16: 1}, {8: 0xFF}, {11: 4}])
def test_damage_in_the_place_of_a_batch_is_reported(tmp_path: Path, change: dict[int, int]) -> None:
    data = bytearray(offset_batch(2))
    for at, byte in change.items():
        data[at] = byte
    segment(tmp_path, numbered([offset_batch(1)]) + data)
    with pytest.raises(CorruptLog):
        loaded(tmp_path, Coordinator().shard, NONE, 16, 1 << 16)


def test_the_tables_of_one_log_leave_nothing_for_the_next(tmp_path: Path) -> None:
    """Records of the same keys, after a whole log and after one whose reading has failed."""
    good, bad, next_log = (tmp_path / name for name in ("good", "bad", "next"))
    for folder in (good, bad, next_log):
        folder.mkdir()
    damaged = bytearray(offset_batch(2))
    damaged[16] = 3
    segment(good, numbered([offset_batch(number) for number in range(20)]))
    segment(bad, numbered([offset_batch(3)] * 5) + damaged)
    segment(
        next_log, numbered([offset_batch(7), offset_batch(8), offset_batch(9, producer=1), offset_batch(10)])
    )
    for rows, max_bytes in ((3, 64), (16, 1 << 16)):
        fresh = read_items(LogWindows(GroupShard.last_value_types, rows, max_bytes), next_log)
        tables = LogWindows(GroupShard.last_value_types, rows, max_bytes)
        read_items(tables, good)
        assert read_items(tables, next_log) == fresh
        with pytest.raises(CorruptLog):
            read_items(tables, bad)
        assert read_items(tables, next_log) == fresh
        assert fresh


def read_items(tables: LogWindows, folder: Path) -> list[Any]:
    """What a replay of the log applies."""
    reader = LogReader(str(folder), OpenFiles())
    return [item for window in tables.read(reader, 0, *WHOLE_LOG) for item in window.items()]


def test_every_key_begins_with_the_text_that_names_its_group() -> None:
    for types in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE):
        for key, _ in types.values():
            field = key.SCHEMA.fields[0]
            assert (field.wire, field.name in ("group", "group_id", "transactional_id")) == (
                "string",
                True,
            ), key
