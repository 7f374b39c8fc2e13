"""Dead letters: context headers, copies, batches of bounded size."""

from collections.abc import Mapping

import pytest

from kbroker.control.share.dead_offsets import REJECTED, Dead
from kbroker.control.share.letters import Origin, batches, letters
from kbroker.protocol.records import NewRecord, Record, read_all, read_batches

ORIGIN = Origin("team", "orders", 7)
DEAD = Dead(3, 5, 2, REJECTED)
NOW_MS = 1_700_000_000_000
ORIGINAL = Record(4, 5, b"key", b"value", (("trace", b"1"), ("__dlq.errors.offset", b"9")))


def context(offset: int) -> tuple[tuple[str, bytes], ...]:
    return (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"7"),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", b"team"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


def made(originals: Mapping[int, Record], max_bytes: int = 1 << 20) -> list[NewRecord]:
    return list(letters(ORIGIN, DEAD, 3, 5, originals, NOW_MS, max_bytes))


def test_a_letter_says_where_its_original_is() -> None:
    assert made({}) == [(None, None, context(offset), NOW_MS) for offset in (3, 4, 5)]


def test_a_copy_has_key_value_and_headers_before_those_of_the_letter() -> None:
    first, copy, _ = made({4: ORIGINAL})
    assert first == (None, None, context(3), NOW_MS)
    assert copy == (b"key", b"value", (*ORIGINAL.headers, *context(4)), NOW_MS)


def test_a_copy_that_no_batch_takes_is_left_out() -> None:
    large = ORIGINAL._replace(value=bytes(1000))
    assert made({4: large}, 1000)[1] == (None, None, context(4), NOW_MS)
    assert made({4: large}, 1600)[1][1] == bytes(1000)


@pytest.mark.parametrize("limit", [1, 300, 600, 5000, 1 << 20])
def test_batches_keep_to_the_limit_and_lose_nothing(limit: int) -> None:
    originals = {
        offset: Record(offset, 1, None, bytes(offset), (("h" * 200, b"x" * 300),)) for offset in range(3, 6)
    }
    expected = made(originals, limit)
    written = list(batches(expected, limit))
    found = [record for batch in written for record in read_all(batch)]
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == expected
    for batch in written:
        (read,) = read_batches(batch)
        assert read.size <= limit or read.record_count == 1


def test_a_topic_with_the_time_of_the_append_gets_it() -> None:
    (batch,) = batches(made({}), 1 << 20, 77)
    assert {each.timestamp_ms for each in read_all(batch)} == {77}
