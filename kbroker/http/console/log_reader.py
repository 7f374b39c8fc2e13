"""Records of a partition from an offset on, by Fetch, with limits for bytes, records and time."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from kbroker.http.console.caller import Caller
from kbroker.http.console.refusal import check, quota_used_up, unavailable
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kbroker.protocol.records import ControlType, Record, RecordBatch, read_batches, read_marker, read_records
from kbroker.protocol.schema import ProtocolError

BY_NAME = 12
"""The last version of Fetch that names topics."""
FETCH_BYTES = 1 << 20
BATCH_BYTES = 32 << 20
"""Maximum size of a decompressed batch."""
BATCH_HEADERS = 500_000
"""Maximum number of headers of its records."""
MAX_RECORDS = 10_000
HELD_BYTES = 32 << 20
"""Bytes of records of one fetch after which the rest is left to the next fetch: a fetch of a
megabyte may hold a gigabyte of records, or a hundred million of them."""
EARLIEST, LATEST = -2, -1


def offsets_at(
    caller: Caller, topic: str, partitions: dict[int, int], timestamp_ms: int, committed: bool = False
) -> dict[int, int]:
    """First offset at or after a time, or EARLIEST or LATEST, by partition; -1 where there is none.

    partitions: leader's node by partition."""
    found: dict[int, int] = {}
    for node in sorted(set(partitions.values())):
        rows = [
            ListOffsetsPartition(p, -1, timestamp_ms) for p, leader in partitions.items() if leader == node
        ]
        api_request = ListOffsetsRequest(-1, int(committed), [ListOffsetsTopic(topic, rows)])
        for each in caller.ask(ApiKey.LIST_OFFSETS, api_request, version=7, node=node).topics:
            for partition in each.partitions:
                check(partition.error_code, f"{topic}-{partition.partition_index}")
                found[partition.partition_index] = partition.offset
    return found


class Scan(Struct):
    """The state of reading a partition. next_offset: offset of the next record. keeps: whether the
    rest of a fetch is kept for the next call, so that a batch is decompressed once, and not for
    each part of it; it may take BATCH_BYTES and more. scanned: bytes of the batches read so far."""

    caller: Caller
    topic: str
    partition: int
    node: int
    next_offset: int
    committed: bool
    keeps: bool = False
    scanned: int = 0
    _rest: Iterator[Record] | None = None
    _rest_at: int = -1

    def records(self, wait_ms: int = 0) -> list[Record]:
        """Records of one fetch, in order, from next_offset on, up to a bound; empty at the end of
        the log. Raises Refusal: QuotaUsedUp if a quota of the caller is."""
        rest, at, self._rest = self._rest, self._rest_at, None
        if rest is not None and at == self.next_offset and (found := self._some_of(rest)):
            return found
        data = self._fetch(wait_ms)
        return self._some_of(self._all_of(data)) if data.records else []

    def _some_of(self, rest: Iterator[Record]) -> list[Record]:
        found: list[Record] = []
        held = 0
        try:
            for record in rest:
                found.append(record)
                held += weight(record)
                if len(found) >= MAX_RECORDS or held >= HELD_BYTES:
                    self.next_offset = self._rest_at = record.offset + 1
                    self._rest = rest if self.keeps else None
                    break
        except ProtocolError as error:
            where = f"{self.topic}-{self.partition} from offset {self.next_offset}"
            raise unavailable(f"{where} cannot be read: {error}") from error
        return found

    def _all_of(self, data: Any) -> Iterator[Record]:
        """The records of a fetch from next_offset on, which is set to the end of each batch. Raises
        ProtocolError."""
        aborted = _Aborted(data.aborted_transactions or []) if self.committed else None
        for batch in read_batches(data.records):
            self.scanned += batch.size
            first = self.next_offset
            if batch.last_offset < first:
                continue
            if batch.is_control:
                if aborted is not None:
                    aborted.marker(batch)
            elif aborted is None or not aborted.holds(batch):
                for record in read_records(batch, BATCH_BYTES, BATCH_HEADERS):
                    if record.offset >= first:
                        yield record
            self.next_offset = batch.last_offset + 1

    def _fetch(self, wait_ms: int) -> Any:
        partition = FetchPartition(
            self.partition, fetch_offset=self.next_offset, partition_max_bytes=FETCH_BYTES
        )
        api_request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self.committed),
            session_epoch=-1,
            topics=[FetchTopic(self.topic, partitions=[partition])],
        )
        answer = self.caller.ask(ApiKey.FETCH, api_request, version=BY_NAME, node=self.node)
        check(answer.error_code, self.topic)
        if not answer.responses:  # as a broker answers when a quota is used up: not the end of the log
            raise quota_used_up(self.topic)
        data = answer.responses[0].partitions[0]
        check(data.error_code, f"{self.topic}-{self.partition} offset {self.next_offset}")
        return data


def weight(record: Record) -> int:
    """About the bytes of memory that a record takes."""
    return 200 + len(record.key or b"") + len(record.value or b"") + 150 * len(record.headers)


class _Aborted:
    """Aborted transactions of a fetch answer, as a read_committed consumer follows them."""

    def __init__(self, transactions: list[Any]) -> None:
        self._coming = sorted(((t.first_offset, t.producer_id) for t in transactions), reverse=True)
        self._open: set[int] = set()

    def holds(self, batch: RecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        while self._coming and self._coming[-1][0] <= batch.last_offset:
            self._open.add(self._coming.pop()[1])
        return batch.is_transactional and batch.producer_id in self._open

    def marker(self, batch: RecordBatch) -> None:
        """Handle the end of a transaction."""
        if read_marker(batch)[0] is ControlType.ABORT:
            self._open.discard(batch.producer_id)


def text_filter(key: str | None, value: str | None) -> Callable[[Record], bool]:
    """Filters records whose key contains one text, and whose value (or the name or value of a
    header) contains the other. Compares bytes and ignores case."""
    key_bytes = key.lower().encode() if key else b""
    value_bytes = value.lower().encode() if value else b""

    def matches(record: Record) -> bool:
        if key_bytes and key_bytes not in (record.key or b"").lower():
            return False
        if not value_bytes or value_bytes in (record.value or b"").lower():
            return True
        return any(
            value_bytes in name.lower().encode() or value_bytes in (content or b"").lower()
            for name, content in record.headers
        )

    return matches
