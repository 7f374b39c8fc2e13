"""When a record is due: by its timestamp or by its header, never sooner, and little later."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.topic import MAX_DELAY_MS
from kbroker.control.share import delays
from kbroker.control.share.delays import DELIVER_AT, TICK_MS, Wait, due_ms, next_check_ms, waits_of
from kbroker.protocol.batch_layout import HEADER_BYTES
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import Headers, NewRecord, Record, build_batch

NOW_MS = 1_800_000_000_000


def record(*values: bytes | None, timestamp_ms: int = NOW_MS) -> Record:
    return Record(0, timestamp_ms, None, b"", tuple((DELIVER_AT, value) for value in values))


def new(timestamp_ms: int, at_ms: int | None = None) -> NewRecord:
    headers: Headers = () if at_ms is None else ((DELIVER_AT, str(at_ms).encode()),)
    return None, b"x", headers, timestamp_ms


def waits(delay_ms: int, *batches: bytes, now_ms: int = NOW_MS) -> list[Wait]:
    """Of batches that are checked in one go."""
    checked = waits_of(batches, delay_ms, now_ms)
    assert checked.batches == len(batches)
    return checked.waits


def test_the_topic_decides_about_a_record_without_a_header() -> None:
    assert due_ms(record(), 0) == NOW_MS
    assert due_ms(record(), 500) == NOW_MS + 500


def test_the_header_goes_before_the_topic_and_the_last_of_them_counts() -> None:
    assert due_ms(record(b"%d" % (NOW_MS + 7)), 500) == NOW_MS + 7
    assert due_ms(record(b"5"), 500) == 5
    assert due_ms(record(b"1", b"2"), 500) == 2
    other = Record(0, NOW_MS, None, None, ((DELIVER_AT, b"7"), ("other", b"8")))
    assert due_ms(other, 500) == 7


@pytest.mark.parametrize("value", [None, b"", b"soon", b"-5", b"1.5", b" 5", b"+5", "٣".encode(), b"1" * 19])
def test_a_malformed_header_leaves_it_to_the_topic(value: bytes | None) -> None:
    assert due_ms(record(value), 500) == NOW_MS + 500


def test_a_header_cannot_hold_a_record_back_for_longer_than_the_longest_delay() -> None:
    assert due_ms(record(b"9" * 18), 0) == NOW_MS + MAX_DELAY_MS
    assert due_ms(record(b"9" * 18, timestamp_ms=-1), 0) < NOW_MS


@given(st.integers(1, MAX_DELAY_MS), st.integers(0, 10**7))
def test_the_last_look_is_when_it_is_due_and_few_come_before(wait_ms: int, later_ms: int) -> None:
    now_ms = NOW_MS + later_ms
    due = now_ms + wait_ms
    looks = [now_ms]
    while looks[-1] < due:
        looks.append(next_check_ms(due, looks[-1]))
        assert looks[-1] > looks[-2]
    assert looks[-1] < due + TICK_MS
    assert len(looks) <= 5


def test_a_week_of_records_in_order_makes_few_ranges() -> None:
    step_ms = 60_000
    looks = {next_check_ms(NOW_MS + left, NOW_MS) for left in range(1, MAX_DELAY_MS, step_ms)}
    assert len(looks) < 1500


def test_neighbours_that_are_not_due_wait_together_until_the_first_is_due() -> None:
    batch = build_batch([new(NOW_MS + each) for each in (-900, -500, -400, -900, -1)], base_offset=10)
    assert waits(600, batch) == [
        Wait(11, 12, next_check_ms(NOW_MS + 100, NOW_MS)),
        Wait(14, 14, next_check_ms(NOW_MS + 599, NOW_MS)),
    ]
    assert waits(0, batch) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_headers_are_found_in_batches_of_every_codec(codec: Codec) -> None:
    records = [new(NOW_MS), new(NOW_MS, NOW_MS + 1000), new(NOW_MS, NOW_MS - 1)]
    batch = build_batch(records, base_offset=7, codec=codec)
    assert waits(0, batch) == [Wait(8, 8, next_check_ms(NOW_MS + 1000, NOW_MS))]
    assert waits(3000, batch) == [Wait(7, 8, next_check_ms(NOW_MS + 1000, NOW_MS))]


def test_the_time_of_the_append_counts_where_the_topic_has_it() -> None:
    batch = build_batch([new(5), new(6)], log_append_time_ms=NOW_MS)
    assert waits(100, batch) == [Wait(0, 1, next_check_ms(NOW_MS + 100, NOW_MS))]
    assert waits(100, batch, now_ms=NOW_MS + 100) == []
    batch = build_batch([new(5), new(6, NOW_MS)], log_append_time_ms=NOW_MS)
    assert waits(100, batch) == [Wait(0, 0, next_check_ms(NOW_MS + 100, NOW_MS))]


def test_batches_that_take_long_are_checked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of batches may hold hundreds of millions of records."""
    monkeypatch.setattr(delays, "CHECKED_AT_A_TIME", 5)
    batches = [
        build_batch([new(NOW_MS)] * 3, base_offset=3 * number, codec=Codec.ZSTD) for number in range(3)
    ]
    check_ms = next_check_ms(NOW_MS + 1000, NOW_MS)
    assert waits_of(batches, 1000, NOW_MS) == (1, [Wait(0, 2, check_ms)])
    assert waits_of(batches[1:], 1000, NOW_MS) == (1, [Wait(3, 5, check_ms)])
    assert waits_of([batches[0], build_batch([new(5)], base_offset=3)], 1000, NOW_MS).batches == 2


@pytest.mark.parametrize(
    "records",
    [
        [new(NOW_MS - 50, 5)] * 3,
        [(None, b"x", [(DELIVER_AT, b"5")] * 6, NOW_MS - 50)],
        [new(NOW_MS - 50)] * 6,
    ],
)
def test_a_batch_that_takes_too_long_is_delayed_as_one_and_others_are_checked_later(
    monkeypatch: pytest.MonkeyPatch, records: list[NewRecord]
) -> None:
    monkeypatch.setattr(delays, "CHECKED_AT_A_TIME", 5)
    batch = build_batch(records, codec=Codec.ZSTD)
    whole = [Wait(0, len(records) - 1, next_check_ms(NOW_MS + 50, NOW_MS))]
    assert waits(100, batch) == whole
    other = build_batch([new(NOW_MS)], base_offset=9, codec=Codec.ZSTD)
    assert waits_of([batch, other], 100, NOW_MS) == (1, whole)


def test_a_damaged_or_too_large_batch_is_delayed_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = build_batch([new(NOW_MS - 50, 5), new(NOW_MS)], codec=Codec.ZSTD)
    damaged = batch[:HEADER_BYTES] + b"\xff" * (len(batch) - HEADER_BYTES)
    whole = [Wait(0, 1, next_check_ms(NOW_MS + 100, NOW_MS))]
    assert waits(100, damaged) == whole
    assert waits(100, damaged, now_ms=NOW_MS + 100) == []
    monkeypatch.setattr(delays, "CHECKED_BYTES", 4)
    assert waits(100, batch) == whole
