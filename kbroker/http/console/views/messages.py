"""Messages of a topic from an offset, a time or the start, or the last ones; filtered, in pages
with a cursor."""

import re
import time
from collections.abc import Callable
from typing import Any

from kbroker.http.console.log_reader import (
    EARLIEST,
    HELD_BYTES,
    LATEST,
    Scan,
    offsets_at,
    text_filter,
    weight,
)
from kbroker.http.console.record_json import CUT_AT, RECORD, record_json
from kbroker.http.console.refusal import Refusal, bad_request, not_found, unavailable
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, INT64, TEXT, Parameter, fields, many, maybe
from kbroker.http.console.views.topics import metadata
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import Record

MESSAGES = fields(records=many(RECORD), cursor=maybe(TEXT), scanned_bytes=INT, complete=BOOL)
START = ("latest", "earliest", "offset", "time")
SCAN_BYTES = 32 << 20
SCAN_S = 4.0
PARTITIONS = 256
WHOLE = 1 << 20
_CURSOR = re.compile(r"[0-9]{1,10}-[0-9]{1,19}(?:\.[0-9]{1,10}-[0-9]{1,19})*")

FILTERS = (
    Parameter("partition", "One partition; default: all.", "integer", None, high=2**31 - 1),
    Parameter("key", "A text that the key contains.", high=500),
    Parameter("value", "A text that the value or a header contains.", high=500),
    Parameter("committed", "Leave out records of open and aborted transactions.", "boolean", False),
)
QUERY = (
    *FILTERS,
    Parameter("start", "Where to start.", default="latest", choices=START),
    Parameter("offset", "With start=offset.", "integer", None, high=INT64),
    Parameter("time_ms", "With start=time.", "integer", None, high=INT64),
    Parameter("limit", "Maximum number of records.", "integer", 50, low=1, high=500),
    Parameter("cursor", "Continue where an answer ended; start is ignored then.", high=6000),
)


def leaders_of(request: Request) -> dict[int, int]:
    """Node of the leader of each requested partition. Raises Refusal."""
    found = metadata(request, request["topic"])[0]
    leaders = {each.partition_index: each.leader_id for each in found.partitions if each.leader_id >= 0}
    if (number := request["partition"]) is not None:
        if number not in leaders:
            raise not_found(f"{request['topic']} has no partition {number}, or it has no leader")
        return {number: leaders[number]}
    if not leaders:
        raise unavailable(f"no partition of {request['topic']} has a leader")
    if len(leaders) > PARTITIONS:
        raise bad_request(f"the topic has {len(leaders)} partitions: choose one")
    return leaders


class _Page:
    """The records of an answer, with their partitions. held: about the bytes of memory that they
    take."""

    def __init__(self, ends_s: float) -> None:
        self.records: list[tuple[int, Record]] = []
        self.held = 0
        self._ends_s = ends_s

    def is_full(self) -> bool:
        """Whether no further fetch may begin, for its size or its time."""
        return self.held >= HELD_BYTES or time.monotonic() >= self._ends_s

    def add(self, partition: int, record: Record) -> None:
        self.records.append((partition, record))
        self.held += weight(record)


def messages(request: Request) -> dict[str, Any]:
    """A page of records, ordered by time."""
    leaders = leaders_of(request)
    topic, limit = request["topic"], request["limit"]
    starts = _from_cursor(request, leaders) if request["cursor"] else _starts(request, leaders)
    matches = text_filter(request["key"], request["value"])
    keeps = len(starts) == 1
    scans = [
        Scan(request.caller, topic, partition, leaders[partition], offset, request["committed"], keeps)
        for partition, offset in sorted(starts.items())
    ]
    page = _Page(time.monotonic() + SCAN_S)
    found = page.records
    open_scans = list(scans)
    share = -(-limit // len(scans))
    while open_scans and len(found) < limit and not page.is_full():
        if sum(scan.scanned for scan in scans) >= SCAN_BYTES:
            break
        open_scans = [scan for scan in open_scans if page.is_full() or _step(scan, page, share, matches)]
    cursor = ".".join(f"{scan.partition}-{scan.next_offset}" for scan in scans)
    found.sort(key=lambda item: (item[1].timestamp_ms, item[0], item[1].offset))
    cut_at = WHOLE if limit == 1 else CUT_AT
    decoder = request.decoder()
    return {
        "records": [record_json(p, record, cut_at, decoder) for p, record in found],
        "cursor": cursor or None,
        "scanned_bytes": sum(scan.scanned for scan in scans),
        "complete": not open_scans,
    }


def _step(scan: Scan, page: _Page, share: int, matches: Callable[[Record], bool]) -> bool:
    """One fetch of a partition; takes at most `share` records. Returns whether there may be
    more."""
    before = scan.next_offset
    records = scan.records()
    if not records:  # only markers or aborted batches, or the end of the log
        return scan.next_offset != before
    taken = 0
    for record in records:
        if matches(record):
            page.add(scan.partition, record)
            taken += 1
        if taken >= share:
            scan.next_offset = record.offset + 1
            break
    return True


def _starts(request: Request, leaders: dict[int, int]) -> dict[int, int]:
    topic, start, committed = request["topic"], request["start"], request["committed"]
    caller = request.caller
    if start == "earliest":
        return offsets_at(caller, topic, leaders, EARLIEST)
    ends = offsets_at(caller, topic, leaders, LATEST, committed)
    firsts = offsets_at(caller, topic, leaders, EARLIEST)
    if start == "offset":
        if request["offset"] is None:
            raise bad_request("start=offset needs offset")
        return {
            partition: min(max(request["offset"], firsts[partition]), end) for partition, end in ends.items()
        }
    if start == "time":
        if request["time_ms"] is None:
            raise bad_request("start=time needs time_ms")
        at = offsets_at(caller, topic, leaders, request["time_ms"])
        return {
            partition: end if at.get(partition, -1) < 0 else at[partition] for partition, end in ends.items()
        }
    share = -(-request["limit"] // max(1, len(leaders)))
    return {partition: max(firsts[partition], end - share) for partition, end in ends.items()}


def _from_cursor(request: Request, leaders: dict[int, int]) -> dict[int, int]:
    text = request["cursor"]
    if not _CURSOR.fullmatch(text):
        raise bad_request("cursor: expected the cursor of an answer")
    pairs = (pair.split("-") for pair in text.split("."))
    starts = {int(partition): int(offset) for partition, offset in pairs}
    if max(starts.values()) > INT64 or not set(starts) <= set(leaders):
        raise bad_request("cursor: belongs to other partitions")
    chosen = {partition: leaders[partition] for partition in starts}
    firsts = offsets_at(request.caller, request["topic"], chosen, EARLIEST)
    ends = offsets_at(request.caller, request["topic"], chosen, LATEST)
    return {p: min(max(offset, firsts[p]), max(firsts[p], ends[p])) for p, offset in starts.items()}


class Tail:
    """New records for a stream. Owner: the thread of one stream."""

    BATCH = 200

    def __init__(self, request: Request) -> None:
        leaders = leaders_of(request)
        ends = offsets_at(request.caller, request["topic"], leaders, LATEST, request["committed"])
        self._request = request
        self._matches = text_filter(request["key"], request["value"])
        topic, committed, keeps = request["topic"], request["committed"], len(ends) == 1
        self._scans = [
            Scan(request.caller, topic, partition, leaders[partition], end, committed, keeps)
            for partition, end in sorted(ends.items())
        ]

    def take(self) -> tuple[list[dict[str, Any]], int]:
        """The newest BATCH records since the last call, and the number of older ones left out."""
        found: list[tuple[int, Record]] = []
        held = 0
        for _ in self._scans:
            if held >= HELD_BYTES:  # the others follow at the next call, and then come first
                break
            scan = self._scans[0]
            self._scans.append(self._scans.pop(0))
            try:
                records = scan.records()
            except Refusal as refusal:
                if refusal.code != ErrorCode.OFFSET_OUT_OF_RANGE.name:
                    raise
                where = offsets_at(scan.caller, scan.topic, {scan.partition: scan.node}, LATEST)
                scan.next_offset = where[scan.partition]
                continue
            new = [(scan.partition, record) for record in records if self._matches(record)]
            held += sum(weight(record) for _, record in new)
            found += new
        found.sort(key=lambda item: (item[1].timestamp_ms, item[0], item[1].offset))
        shown = found[-self.BATCH :]
        decoder = self._request.decoder()
        return [record_json(p, record, 2048, decoder) for p, record in shown], len(found) - len(shown)
