"""Filters and aborted transactions of the message browser."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.console.log_reader import Scan, text_filter
from kbroker.http.console.refusal import Refusal
from kbroker.protocol.records import ControlType, Record, build_batch, build_control_batch


class Fetches:
    """A caller that answers with these bytes once."""

    def __init__(self, data: bytes, aborted: list[tuple[int, int]]) -> None:
        self._transactions = [SimpleNamespace(producer_id=p, first_offset=o) for o, p in aborted]
        self._data = data

    def ask(self, *_: Any, **__: Any) -> Any:
        data, self._data = self._data, b""
        part = SimpleNamespace(error_code=0, records=data, aborted_transactions=self._transactions)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[part])])


def batch(offset: int, *values: bytes, producer: int = -1) -> bytes:
    records = [(None, value, (), 1000) for value in values]
    return build_batch(records, base_offset=offset, producer=(producer, 0, 0), transactional=producer >= 0)


def marker(offset: int, producer: int, kind: ControlType) -> bytes:
    return build_control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1, base_offset=offset
    )


LOG = (
    batch(0, b"plain")
    + batch(1, b"aborted", producer=7)
    + batch(2, b"committed", producer=8)
    + marker(3, 7, ControlType.ABORT)
    + batch(4, b"again", producer=7)
    + marker(5, 7, ControlType.COMMIT)
    + marker(6, 8, ControlType.COMMIT)
)


def read(committed: bool, start: int = 0) -> tuple[list[bytes | None], int]:
    scan = Scan(Fetches(LOG, [(1, 7)] if committed else []), "t", 0, 1, start, committed)
    return [record.value for record in scan.records()], scan.next_offset


def test_committed_reading_leaves_out_aborted_records_and_markers_are_never_shown() -> None:
    assert read(committed=False) == ([b"plain", b"aborted", b"committed", b"again"], 7)
    assert read(committed=True) == ([b"plain", b"committed", b"again"], 7)


def test_records_before_the_offset_in_its_batch_are_left_out() -> None:
    scan = Scan(Fetches(batch(0, b"a", b"b", b"c"), []), "t", 0, 1, 1, False)
    assert [record.offset for record in scan.records()] == [1, 2]
    assert scan.records() == []


def test_damaged_records_are_a_refusal() -> None:
    data = bytearray(batch(0, b"value"))
    data[-1] ^= 1
    with pytest.raises(Refusal, match="CRC"):
        Scan(Fetches(bytes(data), []), "t", 0, 1, 0, False).records()


def test_filters_look_for_text_in_key_value_and_headers() -> None:
    record = Record(0, 0, b"Order-1", b'{"city": "Bern"}', (("trace", b"abc"),))
    assert text_filter("order", None)(record)
    assert text_filter(None, "bern")(record)
    assert text_filter(None, "TRACE")(record)
    assert text_filter("order", "abc")(record)
    assert not text_filter("order", "zürich")(record)
    assert not text_filter("bern", None)(record)
    assert not text_filter(None, "x")(Record(0, 0, None, None))
