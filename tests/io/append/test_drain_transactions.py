"""Transactional batches in the drain: the begin and end of transactions on a partition, and
refusals."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, Drained, Stop
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.ipc.layout import AppendEntry, Completion, Operation, Slot
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import ControlType, build_control_batch
from tests.io.append.drain_case import DrainCase, batch
from tests.io.append.transaction_entries import CONTROL_CLIENT, data, finish, push


def begin(case: DrainCase, epoch: int = 0) -> None:
    push(case, data(epoch=epoch, verified_at=AppendEntry.ANY_TRANSACTION), Operation.APPEND_VERIFIED)
    case.drain.run()
    assert [outcome[1] for outcome in case.outcomes()] == [0]


def marker(epoch: int = 0, commit: bool = True, coordinator_epoch: int = 5, base_offset: int = 0) -> bytes:
    return build_control_batch(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=77,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=9,
        base_offset=base_offset,
    )


def begin_and_end(case: DrainCase) -> None:
    """A transaction of producer 77."""
    push(case, data(verified_at=AppendEntry.ANY_TRANSACTION), Operation.APPEND_VERIFIED)
    push(case, marker(), client=CONTROL_CLIENT)
    case.drain.run()
    case.outcomes()
    finish(case)


def errors(case: DrainCase, client: int = 0) -> list[int]:
    case.drain.run()
    return [outcome[1] for outcome in case.outcomes(client)]


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    return DrainCase(tmp_path)


def test_batch_that_would_begin_a_transaction_is_not_appended_unverified(case: DrainCase) -> None:
    push(case, data())
    case.drain.run()
    (answer,) = case.answers()
    assert answer[Completion.ERROR] == Completion.UNVERIFIED
    assert answer[Completion.BASE_OFFSET] == -1
    assert case.words[Slot.LOG_END] == 0


@pytest.mark.parametrize("operation", [Operation.APPEND_VERIFIED, Operation.APPEND_ADDED])
def test_verified_batch_begins_it_and_the_next_need_nothing(case: DrainCase, operation: int) -> None:
    push(case, data(0, verified_at=-1), operation)
    push(case, data(1))
    assert errors(case) == [0, 0]
    assert case.words[Slot.LAST_STABLE] == 0


def test_batches_after_an_unverified_one_are_unverified_too_not_out_of_order(case: DrainCase) -> None:
    push(case, data(0))
    push(case, data(1))
    assert errors(case) == [Completion.UNVERIFIED] * 2


def test_consent_from_before_a_marker_is_stale(case: DrainCase) -> None:
    begin_and_end(case)
    push(case, data(1, verified_at=-1), Operation.APPEND_VERIFIED)
    case.drain.run()
    (answer,) = case.answers()
    assert answer[Completion.ERROR] == Completion.UNVERIFIED
    seen = int(answer[Completion.BASE_OFFSET])
    assert seen not in (-1, AppendEntry.ANY_TRANSACTION)
    push(case, data(1, verified_at=seen), Operation.APPEND_VERIFIED)
    assert errors(case) == [0]


def test_consent_outlives_the_end_of_another_producers_transaction(case: DrainCase) -> None:
    """Else the batch behind it, which the producer had sent already, would go before it, out of
    sequence."""
    first, second = data(0, verified_at=-1, producer_id=88), data(1, verified_at=-1, producer_id=88)
    push(case, first)
    begin_and_end(case)
    push(case, second)
    assert errors(case) == [Completion.UNVERIFIED]
    push(case, first, Operation.APPEND_ADDED)
    push(case, second, Operation.APPEND_ADDED)
    assert errors(case) == [0, 0]


def test_nothing_is_appended_after_a_marker_before_its_transaction_has_ended(case: DrainCase) -> None:
    begin(case)
    push(case, marker(), client=CONTROL_CLIENT)
    push(case, batch(), client=CONTROL_CLIENT)
    assert case.drain.run() == 1
    assert case.drain.out[Drained.STOP] == Stop.MARKER
    assert case.drain.waiting() == 1
    finish(case)
    assert case.drain.run() == 1
    assert case.words[Slot.LOG_END] == 3


def test_late_batch_of_a_transaction_that_is_over_is_not_appended(case: DrainCase) -> None:
    begin(case)
    push(case, marker(), client=CONTROL_CLIENT)
    case.drain.run()
    finish(case)
    push(case, data(1))
    assert errors(case) == [Completion.UNVERIFIED]


def test_a_consent_ends_with_the_next_transaction_of_its_producer(case: DrainCase) -> None:
    """Also where one had ended before the consent was given."""

    def transaction(sequence: int) -> int:
        late = data(sequence, verified_at=AppendEntry.ANY_TRANSACTION)
        push(case, late, Operation.APPEND_VERIFIED)
        push(case, marker(), client=CONTROL_CLIENT)
        assert errors(case) == [0]
        finish(case)
        push(case, data(sequence + 1))
        case.drain.run()
        (answer,) = case.answers()
        return int(answer[Completion.BASE_OFFSET])

    versions = [transaction(0), transaction(1)]
    for version, error in zip(versions, (Completion.UNVERIFIED, 0), strict=True):
        push(case, data(2, verified_at=version), Operation.APPEND_VERIFIED)
        assert errors(case) == [error]


def test_retry_of_an_appended_batch_is_recognised_without_being_verified(case: DrainCase) -> None:
    begin(case)
    push(case, data(0))
    case.drain.run()
    assert [outcome[1:] for outcome in case.outcomes()] == [(0, 0)]


def test_bumped_epoch_of_the_marker_fences_batches_of_the_old_one(case: DrainCase) -> None:
    begin(case)
    push(case, marker(epoch=1, commit=False), client=CONTROL_CLIENT)
    case.drain.run()
    finish(case)
    push(case, data(1, epoch=0, verified_at=AppendEntry.ANY_TRANSACTION), Operation.APPEND_VERIFIED)
    assert errors(case) == [ErrorCode.INVALID_PRODUCER_EPOCH]


@pytest.mark.parametrize(("sequence", "error"), [(0, 0), (3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_a_producer_known_by_a_marker_alone_starts_at_sequence_zero(
    case: DrainCase, sequence: int, error: int
) -> None:
    case.drain.producers.put(case.slot, ProducerEntry(77, 4))
    push(case, data(sequence, epoch=4, attributes=0))
    assert errors(case) == [error]


def test_zombie_is_left_to_the_coordinator_to_refuse(case: DrainCase) -> None:
    case.drain.producers.put(case.slot, ProducerEntry(77, 4))
    push(case, data(0, epoch=3))
    push(case, data(0, epoch=3, attributes=0))
    assert errors(case) == [Completion.UNVERIFIED, ErrorCode.INVALID_PRODUCER_EPOCH]


def test_zombie_is_left_to_the_coordinator_while_its_successors_transaction_is_open(case: DrainCase) -> None:
    begin(case, epoch=4)
    push(case, data(1, epoch=3))
    push(case, data(1, epoch=3, verified_at=AppendEntry.ANY_TRANSACTION), Operation.APPEND_VERIFIED)
    assert errors(case) == [Completion.UNVERIFIED, ErrorCode.INVALID_PRODUCER_EPOCH]


def test_newer_epoch_is_not_taken_into_the_open_transaction_of_an_older(case: DrainCase) -> None:
    begin(case)
    push(case, data(0, epoch=1))
    assert errors(case) == [Completion.UNVERIFIED]


def test_last_stable_offset_stays_at_the_first_of_several_open_transactions(case: DrainCase) -> None:
    begin(case)
    other = data(producer_id=78, verified_at=AppendEntry.ANY_TRANSACTION)
    push(case, other, Operation.APPEND_VERIFIED)
    assert errors(case) == [0]
    assert (case.words[Slot.LOG_END], case.words[Slot.LAST_STABLE]) == (2, 0)


def test_transactions_that_begin_are_noted_in_the_row(case: DrainCase) -> None:
    """With their first offsets and producers; of more than the row has room for, the number."""
    case.drain.producers.make_room(AppendRow.MAX_OPENED + 1)
    row = case.drain.rows[case.slot]
    after = row[AppendRow.OPENINGS + 2 * AppendRow.MAX_OPENED :].copy()
    begin(case)
    assert row[AppendRow.OPENED] == 1
    assert row[AppendRow.OPENINGS : AppendRow.OPENINGS + 2].tolist() == [0, 77]
    push(case, data(1))
    for producer_id in range(78, 78 + AppendRow.MAX_OPENED):
        other = data(producer_id=producer_id, verified_at=AppendEntry.ANY_TRANSACTION)
        push(case, other, Operation.APPEND_VERIFIED)
        case.drain.run()
    assert row[AppendRow.OPENED] == AppendRow.MAX_OPENED + 1
    noted = row[AppendRow.OPENINGS : AppendRow.OPENINGS + 2 * AppendRow.MAX_OPENED].tolist()
    assert noted[1::2] == list(range(77, 77 + AppendRow.MAX_OPENED))
    assert noted[2::2] == list(range(2, 1 + AppendRow.MAX_OPENED))
    assert row[AppendRow.OPENINGS + 2 * AppendRow.MAX_OPENED :].tolist() == after.tolist()


def test_plain_batch_inside_a_transaction_is_refused(case: DrainCase) -> None:
    begin(case)
    push(case, data(1, attributes=0))
    push(case, data(2, attributes=0))  # as in Apache Kafka, its sequence is checked first
    assert errors(case) == [ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_added_batch_of_an_unknown_producer_starts_at_sequence_zero(case: DrainCase) -> None:
    push(case, data(5, verified_at=-1), Operation.APPEND_ADDED)
    push(case, data(5, verified_at=-1), Operation.APPEND_VERIFIED)
    assert errors(case) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]


def test_control_appends_for_a_producer_without_sequences_and_without_verification(case: DrainCase) -> None:
    push(case, data(-1), client=CONTROL_CLIENT)
    push(case, data(-1), client=CONTROL_CLIENT)
    assert errors(case, CONTROL_CLIENT) == [0, 0]
    (entry,) = case.drain.producers.entries(case.slot)
    assert (entry.last_sequence, entry.current_txn_first_offset) == (-1, 0)
    assert case.words[Slot.LAST_STABLE] == 0


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"),
    [
        (3, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, 5, ErrorCode.NONE),
    ],
)
def test_marker_of_an_older_epoch_or_coordinator_is_refused(
    case: DrainCase, epoch: int, coordinator_epoch: int, error: ErrorCode
) -> None:
    case.drain.producers.put(case.slot, ProducerEntry(77, 4, coordinator_epoch=5))
    push(case, marker(epoch, True, coordinator_epoch), client=CONTROL_CLIENT)
    case.drain.run()
    answered = [outcome[1] for outcome in case.outcomes(CONTROL_CLIENT)]
    assert answered == ([error] if error else [])
    assert len(case.drain.held()) == (0 if error else 1)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"),
    [
        (-2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (-2, -2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, -2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (0, -1, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("base_offset", [0, AppendEntry.MARKER_WITH_NEW_EPOCH])
def test_negative_epochs_of_an_unknown_producers_marker_are_older_than_none(
    case: DrainCase, epoch: int, coordinator_epoch: int, error: ErrorCode, base_offset: int
) -> None:
    push(case, marker(epoch, True, coordinator_epoch, base_offset), client=CONTROL_CLIENT)
    assert errors(case, CONTROL_CLIENT) == ([error] if error else [])
    assert len(case.drain.held()) == (0 if error else 1)


@pytest.mark.parametrize(("epoch", "error"), [(-2, ErrorCode.INVALID_PRODUCER_EPOCH), (-1, ErrorCode.NONE)])
def test_an_unknown_producer_has_no_older_epoch_than_none(
    case: DrainCase, epoch: int, error: ErrorCode
) -> None:
    push(case, data(epoch=epoch, attributes=0))
    assert errors(case) == [error]


def test_marker_of_transactions_v2_ends_no_transaction_of_its_epoch(case: DrainCase) -> None:
    """As in Apache Kafka 4.3.1 (KAFKA-19999) one that is repeated while none is open is written
    again."""
    begin(case)
    bumped = marker(epoch=1, base_offset=AppendEntry.MARKER_WITH_NEW_EPOCH)
    for _ in range(2):
        push(case, bumped, client=CONTROL_CLIENT)
        case.drain.run()
        finish(case)
    begin(case, epoch=1)
    push(case, bumped, client=CONTROL_CLIENT)
    assert errors(case, CONTROL_CLIENT) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert case.words[Slot.LOG_END] == 4


@pytest.mark.parametrize("epoch", [4, (1 << 15) - 1])
def test_the_last_producer_epoch_needs_no_newer_one_in_a_marker(case: DrainCase, epoch: int) -> None:
    case.drain.producers.put(case.slot, ProducerEntry(77, epoch, current_txn_first_offset=0))
    push(case, marker(epoch, base_offset=AppendEntry.MARKER_WITH_NEW_EPOCH), client=CONTROL_CLIENT)
    assert errors(case, CONTROL_CLIENT) == [ErrorCode.INVALID_PRODUCER_EPOCH] * (epoch == 4)
