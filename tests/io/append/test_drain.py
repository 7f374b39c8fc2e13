"""The drain kernel: its answers to clients are what is in the files and in the slot."""

import os
import struct
from pathlib import Path

import pytest

from kbroker.config.processes import MAX_NETWORK_PROCESSES
from kbroker.io.append.drain import MarkerAppend, marker_of
from kbroker.io.append.rows import AppendRow, AppendState, Drained, Stop
from kbroker.ipc.layout import Completion, ProcessLine, Slot, SlotFlag, SlotState
from kbroker.net.rows.topic_kernel import announce_waiter
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.records import ControlType, build_batch, build_control_batch
from tests.io.append.drain_case import CAPACITY, DrainCase, batch, header

OUT_OF_ORDER = 45
INVALID_EPOCH = 47


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    return DrainCase(tmp_path)


def test_offsets_follow_each_other_and_answers_name_them(case: DrainCase) -> None:
    tokens = [case.push(batch(records=n)) for n in (1, 3, 2)]
    assert case.drain.run() == 3
    assert case.outcomes() == [(tokens[0], 0, 0), (tokens[1], 0, 1), (tokens[2], 0, 4)]
    assert case.words[Slot.LOG_END] == case.words[Slot.HIGH_WATERMARK] == 6
    log = case.file("log")
    assert len(log) == case.words[Slot.ACTIVE_END] == case.words[Slot.HW_POSITION]
    position, bases = 0, []
    while position < len(log):
        base, size, _, good = header(log, position)
        assert good
        bases.append(base)
        position += size
    assert bases == [0, 1, 4]


def test_leader_epoch_is_overwritten_whatever_the_client_sent(case: DrainCase) -> None:
    case.row[AppendRow.LEADER_EPOCH] = 9
    case.push(batch())
    case.drain.run()
    assert header(case.file("log"))[2] == 9


def test_batches_of_several_clients_share_a_partition(case: DrainCase) -> None:
    own = case.push(batch(), client=0)
    controls = case.push(batch(), client=1)
    case.drain.run()
    assert case.outcomes(0) == [(own, 0, 0)]
    assert case.outcomes(1) == [(controls, 0, 1)]


def test_more_batches_than_one_call_takes_stay_in_order(case: DrainCase) -> None:
    tokens = [case.push(batch()) for _ in range(CAPACITY)]
    seen: list[tuple[int, int, int]] = []
    while case.drain.waiting():
        assert case.drain.run() > 0
        seen += case.outcomes()
    assert seen == [(token, 0, offset) for offset, token in enumerate(tokens)]


def test_full_completion_ring_leaves_entries_in_the_ring(case: DrainCase) -> None:
    for _ in range(CAPACITY):
        case.push(batch())
    while case.drain.run():
        pass
    answered = CAPACITY - case.drain.waiting()
    assert 0 < answered < CAPACITY
    assert len(case.outcomes()) == answered
    assert case.drain.run() > 0


def test_old_generation_is_refused(case: DrainCase) -> None:
    token = case.push(batch(), generation=6)
    case.drain.run()
    assert case.outcomes() == [(token, 6, -1)]
    assert case.file("log") == b""


def test_offline_slot_answers_storage_error(case: DrainCase) -> None:
    case.row[AppendRow.STATE] = 0
    case.words[Slot.STATE] = SlotState.OFFLINE
    token = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(token, 56, -1)]


def test_a_full_disk_answers_storage_error(case: DrainCase) -> None:
    case.row[AppendRow.STATE] = AppendState.DISK_FULL
    token = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(token, 56, -1)]


def test_retry_of_one_of_five_batches_gets_its_first_offset_and_is_not_written_again(case: DrainCase) -> None:
    for sequence in range(6):
        case.push(batch(producer=(77, 0, sequence)))
    case.drain.run()
    case.outcomes()
    size = len(case.file("log"))
    retries = [case.push(batch(producer=(77, 0, sequence))) for sequence in (1, 5, 0)]
    case.drain.run()
    assert case.outcomes() == [(retries[0], 0, 1), (retries[1], 0, 5), (retries[2], OUT_OF_ORDER, -1)]
    assert len(case.file("log")) == size


@pytest.mark.parametrize("first", [2**31 - 2, 2**31 - 1])
def test_a_retry_is_recognised_where_its_sequence_numbers_wrap(case: DrainCase, first: int) -> None:
    tokens = [case.push(batch(records=3, producer=(77, 0, first))) for _ in range(2)]
    case.drain.run()
    assert case.outcomes() == [(token, 0, 0) for token in tokens]
    assert case.words[Slot.LOG_END] == 3


def test_retry_inside_one_call_is_recognised(case: DrainCase) -> None:
    first = case.push(batch(records=3, producer=(77, 0, 0)))
    again = case.push(batch(records=3, producer=(77, 0, 0)))
    case.drain.run()
    assert case.outcomes() == [(first, 0, 0), (again, 0, 0)]
    assert case.words[Slot.LOG_END] == 3


def test_a_longer_batch_with_the_sequence_of_an_earlier_one_is_no_retry(case: DrainCase) -> None:
    case.push(batch(records=1, producer=(77, 0, 0)))
    case.push(batch(records=2, producer=(77, 0, 0)))
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0, OUT_OF_ORDER]


def test_the_first_batch_of_a_new_epoch_is_no_retry_of_the_epoch_before(case: DrainCase) -> None:
    tokens = [case.push(batch(records=2, producer=(77, epoch, 0))) for epoch in (0, 1)]
    case.drain.run()
    assert case.outcomes() == [(tokens[0], 0, 0), (tokens[1], 0, 2)]


@pytest.mark.parametrize(
    ("epoch", "sequence", "error"),
    [(0, 3, OUT_OF_ORDER), (0, 2, 0), (1, 0, 0), (1, 2, OUT_OF_ORDER)],
)
def test_sequences_must_follow(case: DrainCase, epoch: int, sequence: int, error: int) -> None:
    case.push(batch(records=2, producer=(77, 0, 0)))
    case.push(batch(producer=(77, epoch, sequence)))
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0, error]


def test_older_epoch_is_fenced(case: DrainCase) -> None:
    case.push(batch(producer=(77, 4, 0)))
    case.push(batch(producer=(77, 3, 1)))
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0, INVALID_EPOCH]


def test_unknown_producer_may_start_anywhere_and_sequences_wrap(case: DrainCase) -> None:
    case.push(batch(records=2, producer=(77, 0, 2**31 - 1)))  # covers 2^31 - 1 and 0
    case.push(batch(producer=(77, 0, 1)))
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0, 0]


@pytest.mark.parametrize(
    ("last", "following", "error"),
    [
        (2**31 - 1, 0, 0),
        (2**31 - 1, 1, OUT_OF_ORDER),
        (2**31 - 2, 2**31 - 1, 0),
        (2**31 - 2, 0, OUT_OF_ORDER),
    ],
)
def test_the_sequence_after_the_largest_is_zero(
    case: DrainCase, last: int, following: int, error: int
) -> None:
    case.push(batch(producer=(77, 0, last)))
    case.push(batch(producer=(77, 0, following)))
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0, error]


def test_full_segment_stops_before_the_batch_that_does_not_fit(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    size = len(batch())
    case.row[AppendRow.SEGMENT_BYTES] = 2 * size
    for _ in range(3):
        case.push(batch())
    assert case.drain.run() == 2
    assert (case.drain.out[Drained.STOP], case.drain.out[Drained.STOP_SLOT]) == (Stop.ROLL, case.slot)
    assert case.drain.waiting() == 1
    assert len(case.file("log")) == 2 * size


def test_segment_rolls_by_the_time_of_its_records(case: DrainCase) -> None:
    case.row[AppendRow.SEGMENT_MS] = 500
    case.push(batch(timestamp=1000))
    case.push(batch(timestamp=1500))
    case.push(batch(timestamp=1501))
    assert case.drain.run() == 2
    assert case.drain.out[Drained.STOP] == Stop.ROLL


def test_batch_larger_than_a_segment_is_refused(case: DrainCase) -> None:
    case.row[AppendRow.SEGMENT_BYTES] = 64
    token = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(token, 18, -1)]


def test_index_entry_names_the_batch_after_each_interval(case: DrainCase) -> None:
    case.row[AppendRow.INDEX_INTERVAL] = 100
    size = len(batch())
    for n in range(5):
        case.push(batch(timestamp=1000 + n))
    case.drain.run()
    # an entry is due before the first batch that finds more than 100 bytes since the last entry
    due = [n for n in range(5) if n and n % (100 // size + 1) == 0]
    entries = list(struct.iter_unpack(">ii", case.file("index")))
    assert entries == [(n, n * size) for n in due]
    times = list(struct.iter_unpack(">qi", case.file("timeindex")))
    assert times == [(1000 + n, n) for n in due]


def test_log_append_time_replaces_times_and_checksum(case: DrainCase) -> None:
    case.words[Slot.FLAGS] = SlotFlag.LOG_APPEND_TIME
    case.push(batch(timestamp=5))
    case.drain.run()
    (answer,) = case.answers()
    log = case.file("log")
    stamped = struct.unpack_from(">q", log, rb.MAX_TIMESTAMP)[0]
    assert header(log)[3]
    assert log[rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_LOG_APPEND_TIME
    assert answer[Completion.APPEND_TIME_MS] == stamped > 1_600_000_000_000


def test_durable_topic_holds_acks_all_and_the_high_watermark(case: DrainCase) -> None:
    case.words[Slot.FLAGS] = SlotFlag.DURABLE
    waiting = case.push(batch(records=2), acks=-1)
    quick = case.push(batch(), acks=1)
    case.drain.run()
    assert case.outcomes() == [(quick, 0, 2)]
    assert case.words[Slot.LOG_END] == 3
    assert case.words[Slot.HIGH_WATERMARK] == 0
    assert case.drain.delayed == 1
    case.words[Slot.DURABLE] = 1
    assert case.drain.release(case.slot) == 0
    case.words[Slot.DURABLE] = 2
    assert case.drain.release(case.slot) == 1
    assert case.outcomes() == [(waiting, 0, 0)]


@pytest.mark.parametrize("flag", [SlotFlag.DURABLE, SlotFlag.REPLICATED])
def test_a_refused_batch_is_answered_at_once(tmp_path: Path, flag: int) -> None:
    """Also with acks=all: a later answer would be that of a batch in the log."""
    case = DrainCase(tmp_path)
    case.words[Slot.FLAGS] = flag
    case.push(batch(producer=(7, 0, 0)), acks=-1)
    refused = case.push(batch(producer=(7, 0, 5)), acks=-1)
    case.drain.run()
    assert case.outcomes() == [(refused, OUT_OF_ORDER, -1)]
    assert case.drain.delayed == 1


def test_a_failed_write_is_reported_and_nothing_moves(case: DrainCase) -> None:
    good = case.row[AppendRow.LOG_FD]
    case.row[AppendRow.LOG_FD] = os.open("/dev/full", os.O_WRONLY)
    token = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(token, 56, -1)]
    assert [slot for slot, _ in case.drain.failures()] == [case.slot]
    assert (case.row[AppendRow.NEXT_OFFSET], case.words[Slot.LOG_END]) == (0, 0)
    assert case.row[AppendRow.STATE] == 0
    case.row[AppendRow.LOG_FD], case.row[AppendRow.STATE] = good, 1
    again = case.push(batch())
    case.drain.run()
    assert case.outcomes() == [(again, 0, 0)]


def test_files_are_requested_and_the_batch_waits_in_its_ring(case: DrainCase) -> None:
    good = case.row[AppendRow.LOG_FD]
    case.row[AppendRow.LOG_FD] = AppendRow.NO_FD
    token = case.push(batch())
    assert case.drain.run() == 0
    assert (case.drain.out[Drained.STOP], case.drain.out[Drained.STOP_SLOT]) == (Stop.FILES, case.slot)
    assert case.outcomes() == []
    case.row[AppendRow.LOG_FD] = good
    case.drain.run()
    assert case.outcomes() == [(token, 0, 0)]


def test_a_waiting_reader_is_notified_once_that_the_slot_advanced(case: DrainCase) -> None:
    case.words[Slot.WAITERS] = 1 << 1
    case.push(batch())
    case.drain.run()
    assert [(a[0], a[Completion.SLOT]) for a in case.answers(client=1)] == [(-1, case.slot)]
    assert case.words[Slot.WAITERS] == 0
    case.push(batch())
    case.drain.run()
    assert case.answers(client=1) == []


def test_as_many_readers_as_a_broker_may_have_are_notified(tmp_path: Path) -> None:
    case = DrainCase(tmp_path, clients=MAX_NETWORK_PROCESSES + 1)
    for client in range(MAX_NETWORK_PROCESSES + 1):
        announce_waiter(case.words.ctypes.data, client)
    case.push(batch())
    case.drain.run()
    for client in range(1, MAX_NETWORK_PROCESSES + 1):
        assert [answer[Completion.SLOT] for answer in case.answers(client)] == [case.slot], client
    assert case.words[Slot.WAITERS] == 0


def test_sleeping_client_is_woken_and_a_busy_one_is_not(case: DrainCase) -> None:
    case.shared.processes[0][ProcessLine.SLEEPING] = 1
    case.push(batch())
    case.drain.run()
    assert os.eventfd_read(case.shared.event_fds[0]) == 1
    case.push(batch())
    case.drain.run()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(case.shared.event_fds[0])


def test_transactional_batch_holds_back_the_last_stable_offset(case: DrainCase) -> None:
    case.push(batch(records=2))
    case.drain.run()
    case.push(batch(records=2, producer=(77, 0, -1), attributes=rb.ATTRIBUTE_TRANSACTIONAL), client=1)
    case.drain.run()
    case.push(batch())
    case.drain.run()
    assert case.words[Slot.HIGH_WATERMARK] == 5
    assert case.words[Slot.LAST_STABLE] == 2


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_marker_is_written_and_left_for_python_to_finish(case: DrainCase, commit: bool) -> None:
    record = (
        bytes([0, 0, 0])
        + b"\x08"
        + struct.pack(">hh", 0, int(commit))
        + b"\x0c"
        + struct.pack(">hi", 0, 5)
        + b"\0"
    )
    payload = bytes([2 * len(record)]) + record
    attributes = rb.ATTRIBUTE_CONTROL | rb.ATTRIBUTE_TRANSACTIONAL
    token = case.push(batch(attributes=attributes, producer=(7, 3, -1), payload=payload), client=1, acks=-1)
    case.drain.run()
    (held,) = case.drain.held()
    assert isinstance(held, MarkerAppend)
    assert held.marker is not None
    assert (held.marker.producer_id, held.marker.producer_epoch, held.marker.offset) == (7, 3, 0)
    assert (held.marker.commit, held.marker.coordinator_epoch) == (commit, 5)
    assert (held.append.token, held.append.base_offset) == (token, 0)
    assert case.outcomes(client=1) == []
    assert case.words[Slot.LOG_END] == 1


def test_a_control_batch_without_a_marker_ends_no_transaction() -> None:
    """A follower copies them, too: compaction leaves the header of a producer's last marker."""
    marker = build_control_batch(
        ControlType.COMMIT, producer_id=7, producer_epoch=3, coordinator_epoch=1, timestamp_ms=0
    )
    assert marker_of(marker) is not None
    emptied = bytearray(marker[: rb.HEADER_BYTES])
    struct.pack_into(">i", emptied, rb.LENGTH, rb.HEADER_BYTES - rb.LENGTH_OVERHEAD)
    struct.pack_into(">i", emptied, rb.RECORD_COUNT, 0)
    assert marker_of(bytes(emptied)) is None
    leader_change = build_batch([(struct.pack(">hh", 0, 2), b"\0\0\0\0\0\0", (), 0)], control=True)
    assert marker_of(leader_change) is None


@pytest.mark.parametrize("flag", [SlotFlag.DURABLE, SlotFlag.REPLICATED])
def test_a_resent_batch_that_is_kept_already_is_answered_at_once(tmp_path: Path, flag: int) -> None:
    """As after a restart: nothing else may be appended that would move what it waits for."""
    case = DrainCase(tmp_path)
    case.words[Slot.FLAGS] = flag
    case.push(batch(producer=(7, 0, 0)), acks=-1)
    case.drain.run()
    assert case.outcomes() == []
    again = case.push(batch(producer=(7, 0, 0)), acks=-1)
    case.drain.run()
    assert case.outcomes() == [], "the first one is not kept yet"
    case.words[Slot.DURABLE if flag == SlotFlag.DURABLE else Slot.HIGH_WATERMARK] = 1
    once_more = case.push(batch(producer=(7, 0, 0)), acks=-1)
    case.drain.run()
    assert case.outcomes() == [(once_more, 0, 0)]
    assert case.drain.release(case.slot) == 2
    assert case.outcomes() == [(1, 0, 0), (again, 0, 0)]
