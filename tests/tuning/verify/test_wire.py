"""The load's bytes, read by a library of others."""

import struct

import pytest
from kafka.record.default_records import DefaultRecordBatch

from tuning.verify import wire
from tuning.verify.batch import record_batch, varint


def test_a_batch_is_one_that_others_read() -> None:
    batch = DefaultRecordBatch(record_batch(70, 1000))
    assert batch.validate_crc()
    records = list(batch)
    assert [record.offset for record in records] == list(range(70))
    assert {len(record.value) for record in records} == {1000}
    assert len({record.value for record in records}) == 70
    assert all(record.key is None for record in records)


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (1024, "8010")]
)
def test_varints_are_zigzag_in_sevens(value: int, expected: str) -> None:
    assert varint(value).hex() == expected


def test_a_request_has_its_length_and_its_version_in_front() -> None:
    for request, key, version in (
        (wire.produce("bulk", 3, b"batch"), 0, 7),
        (wire.fetch("bulk", 3, 77, 1 << 20), 1, 4),
        (wire.create_topic("bulk", 4), 19, 4),
    ):
        assert struct.unpack_from(">ihh", request) == (len(request) - 4, key, version)


def answer_to_fetch(error: int, aborted: int, length: int) -> bytes:
    partition = struct.pack(">ihqqii", 0, error, 9, 9, aborted, length)
    return struct.pack(">iiih", 0, 0, 1, 4) + b"bulk" + struct.pack(">i", 1) + partition


def test_an_answer_with_an_error_is_refused() -> None:
    assert wire.fetched_bytes(answer_to_fetch(0, -1, 500) + bytes(500), "bulk") == 500
    for error, aborted, length in ((3, -1, 500), (0, 1, 500), (0, -1, 0), (0, -1, -1)):
        with pytest.raises(wire.Refused, match="Fetch"):
            wire.fetched_bytes(answer_to_fetch(error, aborted, length), "bulk")
    topic = struct.pack(">h", 4) + b"bulk"
    with pytest.raises(wire.Refused, match="error code 56"):
        wire.check_produced(struct.pack(">ii", 0, 1) + topic + struct.pack(">iih", 1, 0, 56), "bulk")
    with pytest.raises(wire.Refused, match="error code 41"):
        wire.check_created(struct.pack(">iii", 0, 0, 1) + topic + struct.pack(">h", 41), "bulk")
