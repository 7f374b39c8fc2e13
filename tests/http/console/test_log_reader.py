"""Filters and aborted transactions of the message browser."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.console import log_reader
from kbroker.http.console.log_reader import Scan, text_filter
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.views import messages
from kbroker.protocol.records import (
    ControlType,
    Record,
    RecordBatch,
    build_batch,
    build_control_batch,
    read_records,
)


class Fetches:
    """A caller that answers with these bytes once."""

    def __init__(self, data: bytes, aborted: list[tuple[int, int]]) -> None:
        self._transactions = [SimpleNamespace(producer_id=p, first_offset=o) for o, p in aborted]
        self._data = data

    def ask(self, *_: Any, **__: Any) -> Any:
        data, self._data = self._data, b""
        part = SimpleNamespace(error_code=0, records=data, aborted_transactions=self._transactions)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[part])])


class WholeLog:
    """A caller that answers with the batches from an offset on."""

    def __init__(self, *batches: tuple[int, bytes]) -> None:
        self._batches = batches  # with their last offsets
        self.fetches = 0

    def ask(self, _: Any, request: Any, **__: Any) -> Any:
        start = request.topics[0].partitions[0].fetch_offset
        self.fetches += 1
        data = b"".join(each for last, each in self._batches if last >= start)
        part = SimpleNamespace(error_code=0, records=data, aborted_transactions=[])
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


def test_a_batch_of_very_many_headers_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "BATCH_HEADERS", 5)
    headers: list[tuple[str, bytes | None]] = [("", None)] * 3
    data = build_batch([(None, b"a", headers, 1), (None, b"b", headers, 1)])
    with pytest.raises(Refusal, match="more headers than allowed"):
        Scan(Fetches(data, []), "t", 0, 1, 0, False).records()


def test_an_answer_without_partitions_is_not_the_end_of_the_log() -> None:
    """So the broker answers when a quota is used up."""
    answer = SimpleNamespace(error_code=0, responses=[])
    caller: Any = SimpleNamespace(ask=lambda *_, **__: answer)
    with pytest.raises(Refusal, match="quota") as refused:
        Scan(caller, "t", 0, 1, 0, False).records()
    assert refused.value.status == 503


def test_filters_look_for_text_in_key_value_and_headers() -> None:
    record = Record(0, 0, b"Order-1", b'{"city": "Bern"}', (("trace", b"abc"),))
    assert text_filter("order", None)(record)
    assert text_filter(None, "bern")(record)
    assert text_filter(None, "TRACE")(record)
    assert text_filter("order", "abc")(record)
    assert not text_filter("order", "zürich")(record)
    assert not text_filter("bern", None)(record)
    assert not text_filter(None, "x")(Record(0, 0, None, None))


def all_of(scan: Scan) -> list[int]:
    found: list[int] = []
    while records := scan.records():
        found += [record.offset for record in records]
    return found


def test_a_fetch_of_very_many_records_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 32 MiB may hold four million of them."""
    monkeypatch.setattr(log_reader, "MAX_RECORDS", 3)
    log = WholeLog((6, batch(0, *[b"a"] * 7)), (8, batch(7, b"b", b"c")))
    scan = Scan(log, "t", 0, 1, 1, False)
    assert [record.offset for record in scan.records()] == [1, 2, 3]
    assert all_of(scan) == [4, 5, 6, 7, 8]


def test_a_fetch_of_large_records_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "HELD_BYTES", 1000)
    log = WholeLog((2, batch(0, *[b"a" * 900] * 3)), (3, batch(3, b"b")))
    scan = Scan(log, "t", 0, 1, 0, False)
    assert [record.offset for record in scan.records()] == [0]
    assert all_of(scan) == [1, 2, 3]
    assert log.fetches == 4 + 1


def test_a_batch_is_decompressed_once_where_the_rest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was for each part of it: the last part of a batch took as long as the whole batch."""
    monkeypatch.setattr(log_reader, "MAX_RECORDS", 3)
    read: list[int] = []

    def counted(batch: RecordBatch, *bounds: int) -> Iterator[Record]:
        read.append(batch.base_offset)
        return read_records(batch, *bounds)

    monkeypatch.setattr(log_reader, "read_records", counted)
    log = WholeLog((6, batch(0, *[b"a"] * 7)), (8, batch(7, b"b", b"c")))
    scan = Scan(log, "t", 0, 1, 1, False, keeps=True)
    assert all_of(scan) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (read, log.fetches) == ([0, 7], 2)


def test_a_kept_rest_is_not_read_from_another_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "MAX_RECORDS", 2)
    scan = Scan(WholeLog((4, batch(0, *[b"a"] * 5))), "t", 0, 1, 0, False, keeps=True)
    assert [record.offset for record in scan.records()] == [0, 1]
    scan.next_offset = 1
    assert all_of(scan) == [1, 2, 3, 4]


class Asked:
    """A request for a page."""

    def __init__(self, caller: Any, **values: Any) -> None:
        self.caller = caller
        self._values = {"topic": "t", "cursor": None, "key": None, "value": None, "committed": False}
        self._values |= values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def decoder(self) -> None:
        return None


def test_a_page_of_large_records_is_short_and_names_where_it_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reader, "HELD_BYTES", 2000)
    monkeypatch.setattr(messages, "HELD_BYTES", 2000)
    monkeypatch.setattr(messages, "leaders_of", lambda _: {0: 1, 1: 1})
    monkeypatch.setattr(messages, "_starts", lambda *_: {0: 0, 1: 0})
    log = WholeLog((4, batch(0, *[b"a" * 900] * 5)))
    found = messages.messages(Asked(log, limit=100))
    assert [(each["partition"], each["offset"]) for each in found["records"]] == [(0, 0), (0, 1)]
    assert (found["cursor"], found["complete"]) == ("0-2.1-0", False)


def test_markers_alone_are_not_the_end_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "leaders_of", lambda _: {0: 1})
    monkeypatch.setattr(messages, "_starts", lambda *_: {0: 0})

    class Two(WholeLog):
        def ask(self, _: Any, request: Any, **more: Any) -> Any:
            answer = super().ask(_, request, **more)
            part = answer.responses[0].partitions[0]
            if request.topics[0].partitions[0].fetch_offset == 0:
                part.records = self._batches[0][1]
            return answer

    log = Two((0, marker(0, 7, ControlType.COMMIT)), (1, batch(1, b"a")))
    found = messages.messages(Asked(log, limit=100))
    assert [each["offset"] for each in found["records"]] == [1]
    assert (found["cursor"], found["complete"]) == ("0-2", True)
