"""What is written of shared partitions comes back: snapshots, updates, a new start, deletion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.protocol.coordinator_records import share_snapshot, share_update
from kbroker.protocol.coordinator_records.index import SHARE_GROUP_STATE
from kbroker.protocol.coordinator_records.share_snapshot import ShareSnapshotValue
from kbroker.protocol.record_types import decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError

KEY = ShareKey("team", bytes(range(16)), 3)
LIMITS = Limits(lock_ms=1000, delivery_count=3, records=50)
DONE = Range(0, 4, DeliveryState.ACKNOWLEDGED, 1)


class Log:
    """A shard and the records behind it."""

    def __init__(self, updates: int = 500) -> None:
        self.shard = ShareStateShard(updates)
        self.records: list[Record] = []

    def run(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.records.append(record)
            self.shard.replay(0, record.key, record.value, 7)

    def write(self, start: int, *changed: Range) -> None:
        self.run(self.shard.write(KEY, start, changed, 7))

    def counts(self) -> list[int]:
        """What each record says of how many records are finished."""
        values = [decode_record(SHARE_GROUP_STATE, each.key, each.value)[1] for each in self.records]
        return [each.delivery_complete_count for each in values]  # type: ignore[union-attr]

    def finished(self) -> int:
        """How many records are finished, for a successor."""
        stored = self.successor().get(KEY)
        assert stored is not None
        return stored.finished

    def successor(self) -> ShareStateShard:
        again = ShareStateShard()
        for record in self.records:
            again.replay(0, record.key, record.value, 7)
        return again


def test_the_first_record_is_a_snapshot_then_updates_follow_until_the_next_snapshot() -> None:
    log = Log(updates=2)
    log.write(0)
    for first in (10, 20, 30):
        log.write(0, Range(first, first + 4, DeliveryState.AVAILABLE, 1))
    values = [decode_record(SHARE_GROUP_STATE, each.key, each.value)[1] for each in log.records]
    assert [isinstance(value, ShareSnapshotValue) for value in values] == [True, False, False, True]
    last = values[-1]
    assert isinstance(last, ShareSnapshotValue)
    assert last.snapshot_epoch == 1
    assert [each.first_offset for each in last.state_batches] == [10, 20, 30]


def test_records_that_kafka_was_archiving_are_delivered_again() -> None:
    """Apache Kafka 4.4 writes the state of records whose dead letters are still to be written."""
    log = Log()
    log.write(0, Range(2, 4, DeliveryState.ARCHIVING, 3))
    stored = log.successor().get(KEY)
    assert stored is not None
    assert list(stored.ranges) == [Range(2, 4, DeliveryState.AVAILABLE, 3)]


@pytest.mark.parametrize("updates", [0, 500], ids=["snapshots", "updates"])
def test_each_record_says_how_many_records_are_finished_from_its_start_on(updates: int) -> None:
    log = Log(updates)
    log.write(0)
    log.write(0, Range(2, 4, DeliveryState.ACKNOWLEDGED, 1), Range(5, 9, DeliveryState.AVAILABLE, 1))
    log.write(0, Range(4, 6, DeliveryState.ARCHIVED, 1), Range(6, 6, DeliveryState.AVAILABLE, 2))
    log.write(0, Range(0, 1, DeliveryState.ACKNOWLEDGED, 1))
    log.write(6, Range(8, 8, DeliveryState.ACKNOWLEDGED, 1))
    log.write(3, Range(9, 9, DeliveryState.ACKNOWLEDGED, 1))  # the start stays where it was
    if updates:
        assert log.counts() == [0, 3, 4, 6, 1, 2]
    assert log.counts()[:5] == [0, 3, 4, 6, 1]
    assert log.finished() == 2
    log.run(log.shard.rewrite(KEY, 7))
    log.run(log.shard.restart_at(KEY, 6, 7))
    assert log.counts()[-2:] == [2, 0]


def of_kafka(count: int, *batches: share_snapshot.StateBatch) -> Log:
    """A log with a snapshot of another broker."""
    log = Log()
    value = share_snapshot.ShareSnapshotValue(1, 0, 0, 0, count, state_batches=list(batches))
    key = share_snapshot.ShareSnapshotKey(*KEY)
    log.run(Outcome([Record(encode_key(key), encode_value(value, 0))]))
    return log


def test_the_count_of_apache_kafka_is_read_back_and_an_old_record_is_counted() -> None:
    batches = share_snapshot.StateBatch(2, 3, 2, 1), share_snapshot.StateBatch(5, 6, 0, 1)
    assert of_kafka(7, *batches).finished() == 7
    assert of_kafka(-1, *batches).finished() == 2
    log = of_kafka(7, *batches)
    log.write(0, Range(5, 5, DeliveryState.ARCHIVED, 1))
    assert log.counts() == [7, 3], "as Kafka, whose count restarts when it loads a partition"


def test_a_state_without_a_start_has_no_count() -> None:
    log = of_kafka(-1)
    stored = log.shard.get(KEY)
    assert stored is not None
    stored.start_offset = -1
    log.run(log.shard.rewrite(KEY, 7))
    assert log.counts() == [-1, -1]


def test_a_count_beyond_its_32_bits_is_the_largest() -> None:
    log = Log()
    log.write(0)
    log.write(0, Range(5, 2**40, DeliveryState.ARCHIVED, 0))
    assert log.counts() == [0, 2**31 - 1]


def test_keys_are_those_of_apache_kafka() -> None:
    assert str(KEY) == "team:AAECAwQFBgcICQoLDA0ODw:3"


def test_a_lock_has_no_owner_after_a_restart() -> None:
    log = Log()
    log.write(0, Range(0, 4, DeliveryState.ACQUIRED, 2, "a", 99))
    stored = log.successor().get(KEY)
    assert stored is not None
    assert list(stored.ranges) == [Range(0, 4, DeliveryState.AVAILABLE, 2)]


def test_a_new_start_forgets_what_was() -> None:
    log = Log()
    log.write(0, DONE)
    log.run(log.shard.restart_at(KEY, 2, 7))
    stored = log.shard.get(KEY)
    assert stored is not None
    assert (stored.start_offset, stored.state_epoch, list(stored.ranges)) == (2, 1, [])


def test_a_beginning_is_untouched_until_something_is_written() -> None:
    log = Log()
    log.write(5)
    begun = log.successor().get(KEY)
    assert begun is not None
    assert begun.is_untouched
    log.write(5, Range(5, 5, DeliveryState.ACKNOWLEDGED, 1))
    worked = log.successor().get(KEY)
    assert worked is not None
    assert not worked.is_untouched
    log.run(log.shard.delete(KEY))
    log.run(log.shard.restart_at(KEY, 0, 7))
    moved = log.shard.get(KEY)
    assert moved is not None
    assert not moved.is_untouched, "an administrator's request is reported"


def test_an_initialized_state_gets_its_start_from_the_first_member_that_reads() -> None:
    log = Log()
    log.run(log.shard.initialize(KEY, 2, 7))
    made = log.successor().get(KEY)
    assert made is not None
    assert (made.start_offset, made.state_epoch, made.snapshot_epoch) == (-1, 2, 0)
    assert made.is_untouched
    assert not log.shard.initialize(KEY, 3, 8).records, "a state stays"
    log.write(5)
    begun = log.successor().get(KEY)
    assert begun is not None
    assert (begun.start_offset, begun.state_epoch, begun.finished) == (5, 2, 0)
    assert begun.is_untouched
    assert log.counts() == [-1, 0]
    log.write(6)
    worked = log.successor().get(KEY)
    assert worked is not None
    assert not worked.is_untouched


def test_a_first_start_is_written_once() -> None:
    """Two fetches may find none at the same time. Records between the two starts would be lost."""
    log = Log()
    log.run(log.shard.initialize(KEY, 4, 7))
    for start in (100, 105):
        log.run(log.shard.begin(KEY, start, 7))
    assert len(log.records) == 2
    stored = log.successor().get(KEY)
    assert stored is not None
    assert stored.start_offset == 100


def test_a_rewritten_state_needs_no_older_record() -> None:
    log = Log()
    log.write(0)
    log.write(0, Range(3, 4, DeliveryState.ACKNOWLEDGED, 1))
    old = len(log.records)
    log.run(log.shard.rewrite(KEY, 9))
    before = log.shard.get(KEY)
    log.records = log.records[old:]
    after = log.successor().get(KEY)
    assert before is not None
    assert after is not None
    assert (after.start_offset, list(after.ranges)) == (before.start_offset, list(before.ranges))
    assert log.shard.keys_in(0) == [KEY]


def test_a_deleted_state_is_gone() -> None:
    log = Log()
    log.write(0, DONE)
    log.run(log.shard.delete(KEY))
    assert log.shard.get(KEY) is None
    assert log.successor().get(KEY) is None
    assert not log.shard.delete(KEY).records
    assert not log.shard.keys_of("team")
    assert not log.shard.keys_in(0)


def test_an_unloaded_partition_is_forgotten() -> None:
    log = Log()
    log.write(0, DONE)
    log.shard.unloaded(0)
    assert log.shard.get(KEY) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 5), st.sampled_from([1, 2, 3]), st.booleans()),
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_a_partition_continues_with_its_stored_state(
    steps: list[tuple[int, int, int, bool]], updates: int
) -> None:
    """Except for the locks: what was acquired may be had again."""
    log = Log(updates)
    log.write(0)
    part = SharePartition(0)
    for first, length, kind, restarts in steps:
        start = part.next_offset()
        for given_out in part.acquire("a", [(start, start + length - 1)], Spec(100), LIMITS, 0):
            if given_out.first % 3 != first % 3:
                batch = AcknowledgedBatch(given_out.first, given_out.last, [kind])
                part.acknowledge("a", [batch], LIMITS, 0)
        changes = part.take_changes()
        if changes is not None:
            log.write(changes[0], *changes[1])
            stored = log.shard.get(KEY)
            assert stored is not None
            assert log.counts()[-1] == stored.ranges.finished
        if restarts:
            stored = log.shard.get(KEY)
            assert stored is not None
            again = SharePartition(stored.start_offset, list(stored.ranges))
            part.release("a", Limits(delivery_count=10**6), 0)
            assert again.start_offset == part.start_offset
            assert again.next_offset() == part.next_offset()
            part = again


TOP = 2**63 - 1


@pytest.mark.parametrize(
    "odd",
    [(5, 4, 0, 1), (-1, 4, 0, 1), (0, TOP, 2, 1), (0, 4, 5, 1), (0, 4, -1, 1), (0, 4, 0, -1)],
    ids=["backwards", "before 0", "beyond the last offset", "unknown state", "negative state", "count"],
)
@pytest.mark.parametrize("update", [False, True])
def test_a_record_with_a_state_that_cannot_be_changes_nothing(
    odd: tuple[int, int, int, int], update: bool
) -> None:
    log = Log()
    log.write(0, Range(10, 14, DeliveryState.ACKNOWLEDGED, 1))
    before = repr(log.shard.get(KEY)), list(log.shard.get(KEY).ranges)  # type: ignore[union-attr]
    key, value = (
        (share_update.ShareUpdateKey(*KEY), share_update.ShareUpdateValue(0, 0, 3))
        if update
        else (share_snapshot.ShareSnapshotKey(*KEY), share_snapshot.ShareSnapshotValue(1, 1, 1, 3))
    )
    batch = share_update.StateBatch if update else share_snapshot.StateBatch
    value.state_batches = [batch(3, 4, 2, 1), batch(*odd)]  # type: ignore[assignment]
    with pytest.raises(ProtocolError):
        log.shard.replay(0, encode_key(key), encode_value(value, 0), 7)
    assert (repr(log.shard.get(KEY)), list(log.shard.get(KEY).ranges)) == before  # type: ignore[union-attr]


def test_a_snapshot_holds_nothing_below_its_start() -> None:
    log = Log(updates=0)
    log.write(0)
    log.write(0, Range(0, 4, DeliveryState.ACKNOWLEDGED, 1), Range(5, 9, DeliveryState.AVAILABLE, 1))
    log.write(5)
    _, value = decode_record(SHARE_GROUP_STATE, log.records[-1].key, log.records[-1].value)
    assert isinstance(value, ShareSnapshotValue)
    assert value.start_offset == 5
    assert [each.first_offset for each in value.state_batches] == [5]


def test_the_time_of_the_first_snapshot_is_kept_and_that_of_the_last_write_moves() -> None:
    log = Log(updates=0)
    times = []
    for now_ms in (100, 200, 300):
        log.run(log.shard.write(KEY, 0, (), now_ms))
        _, value = decode_record(SHARE_GROUP_STATE, log.records[-1].key, log.records[-1].value)
        assert isinstance(value, ShareSnapshotValue)
        times.append((value.create_timestamp, value.write_timestamp))
    assert times == [(100, 100), (100, 200), (100, 300)]


def test_a_snapshot_holds_what_earlier_records_did_and_its_own_changes() -> None:
    log = Log(updates=1)
    log.write(0, Range(0, 4, DeliveryState.AVAILABLE, 1))
    log.write(0, Range(10, 14, DeliveryState.AVAILABLE, 2))
    log.write(0, Range(2, 3, DeliveryState.ACKNOWLEDGED, 1))
    _, value = decode_record(SHARE_GROUP_STATE, log.records[-1].key, log.records[-1].value)
    assert isinstance(value, ShareSnapshotValue)
    assert [(each.first_offset, each.last_offset, each.delivery_state) for each in value.state_batches] == [
        (0, 1, DeliveryState.AVAILABLE),
        (2, 3, DeliveryState.ACKNOWLEDGED),
        (4, 4, DeliveryState.AVAILABLE),
        (10, 14, DeliveryState.AVAILABLE),
    ]


def test_an_update_never_brings_back_an_earlier_start() -> None:
    log = Log()
    log.write(0)
    log.write(5)
    log.write(3)
    found = log.successor().get(KEY)
    assert found is not None
    assert found.start_offset == 5


@pytest.mark.parametrize("is_in_the_log", [True, False])
@pytest.mark.parametrize("kind", ["write", "delete", "restart"])
def test_a_record_whose_append_has_failed_and_is_in_the_log_changes_no_later_state(
    kind: str, is_in_the_log: bool
) -> None:
    """After a deletion that had timed out, all updates were dropped by the next start."""
    log = Log()
    log.write(0)
    log.write(0, DONE)
    shard = log.shard
    failed = {
        "write": lambda: shard.write(KEY, 9, (Range(9, 12, DeliveryState.ACKNOWLEDGED, 1),), 7),
        "delete": lambda: shard.delete(KEY),
        "restart": lambda: shard.restart_at(KEY, 50, 7),
    }[kind]()
    if is_in_the_log:
        log.records += failed.records
    for first in (20, 30):
        log.write(5, Range(first, first + 1, DeliveryState.ACKNOWLEDGED, 1))
    ours, again = shard.get(KEY), log.successor().get(KEY)
    assert ours is not None
    assert again is not None
    assert (again.start_offset, list(again.ranges)) == (ours.start_offset, list(ours.ranges))
    last = decode_record(SHARE_GROUP_STATE, log.records[-1].key, log.records[-1].value)[1]
    assert not isinstance(last, ShareSnapshotValue), "one snapshot is enough"


def test_states_are_found_by_their_group_their_topic_and_the_partition_of_their_records() -> None:
    shard, other_topic = ShareStateShard(), bytes(16)
    keys = [KEY, KEY._replace(group_id="other"), KEY._replace(topic_id=other_topic)]
    for partition, key in enumerate(keys):
        for record in shard.write(key, 0, (), 7).records:
            shard.replay(partition % 2, record.key, record.value, 7)
    assert shard.keys_of("team") == [keys[0], keys[2]]
    assert shard.keys_of_topic(KEY.topic_id) == keys[:2]
    assert set(shard.keys_in(0)) == {keys[0], keys[2]}
    shard.unloaded(0)
    assert (shard.keys_of_topic(KEY.topic_id), shard.keys_in(0)) == ([keys[1]], [])
    assert shard.keys_in(1) == [keys[1]]
