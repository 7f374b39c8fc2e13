"""The result of a share fetch from a partition: batches of the log, and the records in them that
the member has acquired."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.delays import Wait, waits_of
from kbroker.control.share.partitions import SharePartitions
from kbroker.control.share.reading import Piece, log_start_of, read_pieces
from kbroker.control.share.sessions import ShareSession
from kbroker.control.share.share_partition import Acquired, SharePartition
from kbroker.control.share.state_shard import ShareKey
from kbroker.ipc.clock import monotonic_ms
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

CHECK_BYTES = 1 << 20
"""Bytes read at a time from a topic with a delay: one record may be due among many that are not."""


class DelayCheck(NamedTuple):
    """The result of a check for records that are not due. firsts: first offsets of the checked
    batches."""

    firsts: frozenset[int]
    waits: Sequence[Wait]

    def hold_back(self, partition: SharePartition, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces to acquire from, without records that are not due. A piece that was not
        checked, or whose records were released since the check, is skipped: the next fetch reads
        it."""
        for wait in self.waits:
            if not partition.is_scattered or wait.first <= partition.end_offset:
                partition.hold_back(*wait)
        return [
            each
            for each in pieces
            if each.first in self.firsts or not partition.has_unseen(each.first, each.last)
        ]


class Deliveries:
    """Runs in: control. Owner: the ShareService. One fetch at a time reads a partition. is_open:
    whether a session is open. freed(key): called when other fetches may read the partition.
    """

    def __init__(
        self,
        broker: Broker,
        partitions: SharePartitions,
        is_open: Callable[[ShareSession], bool],
        freed: Callable[[ShareKey], None],
    ) -> None:
        self._broker = broker
        self._partitions = partitions
        self._is_open = is_open
        self._freed = freed
        self._fetching: set[ShareKey] = set()
        self._passed_by: set[ShareKey] = set()

    async def load(self, key: ShareKey) -> None:
        """Load the partition for the next fetch, which also reports errors."""
        if key in self._fetching:
            return
        self._fetching.add(key)
        try:
            await self._partitions.open(key)
        except KafkaError as error:
            log.debug("%s is not loaded: %s", key, error)
        finally:
            self._fetched(key)

    def _fetched(self, key: ShareKey) -> None:
        """Other fetches may read the partition now."""
        self._fetching.discard(key)
        if key in self._passed_by:
            self._passed_by.discard(key)
            self._freed(key)

    async def take(
        self, key: ShareKey, session: ShareSession, max_bytes: int, spec: Spec
    ) -> tuple[bytes, list[Acquired]] | None:
        """(batches of the log, acquired offsets); None if no records are available, or if another
        fetch is reading this partition, which then wakes this one. Raises KafkaError."""
        if key in self._fetching:
            self._passed_by.add(key)
            return None
        self._fetching.add(key)
        try:
            return await self._acquire(key, session, max_bytes, spec)
        finally:
            self._fetched(key)

    async def _acquire(
        self, key: ShareKey, session: ShareSession, max_bytes: int, spec: Spec
    ) -> tuple[bytes, list[Acquired]] | None:
        log_partition = self._partitions.log_of(key)
        partition = await self._partitions.open(key)
        limits = self._partitions.limits(key.group_id)
        delay_ms = self._broker.topic_config(log_partition.topic).kbroker_delivery_delay_ms
        partition.archive_before(log_start_of(self._broker, log_partition))
        partition.use_delay(delay_ms)
        if not partition.may_acquire(limits):
            return None
        committed = self._partitions.reads_committed(key.group_id)
        start = partition.next_offset(limits)
        if delay_ms >= 0:
            max_bytes = min(max_bytes, CHECK_BYTES)
        pieces = await read_pieces(self._broker, log_partition, start, max_bytes, committed)
        check = (
            await self._check_delays(log_partition, partition, pieces, delay_ms) if delay_ms >= 0 else None
        )
        if not pieces or self._partitions.get(key) is not partition or not self._is_open(session):
            return b"", []
        if partition.is_scattered:
            pieces = [each for each in pieces if each.first <= partition.end_offset]
        _pass_over(partition, pieces, start)
        offered = [each for each in pieces if each.deliver]
        if check is not None:
            offered = check.hold_back(partition, offered)
        acquired = partition.acquire(
            session.member_id,
            [(max(piece.first, start), piece.last) for piece in offered],
            spec,
            limits,
            monotonic_ms(),
        )
        try:
            await self._partitions.settle(key, partition)
        except KafkaError as error:  # skipped records can be found again
            log.debug("%s: the state is not written: %s", key, error)
        if check is not None and not acquired and partition.next_offset(limits) > start:
            self._freed(key)  # nothing was due here: the fetch continues with the next records
        return _records_of(pieces, acquired), acquired

    async def _check_delays(
        self, log_partition: Partition, partition: SharePartition, pieces: Sequence[Piece], delay_ms: int
    ) -> DelayCheck:
        """Look for records that are not due, in a thread. Raises KafkaError."""
        unseen = [each for each in pieces if each.deliver and partition.has_unseen(each.first, each.last)]
        if not unseen:
            return DelayCheck(frozenset(), [])
        batches, now_ms = [each.data for each in unseen], self._broker.now_ms()
        checked = await self._broker.logs.find(
            log_partition.folder, lambda _: waits_of(batches, delay_ms, now_ms)
        )
        return DelayCheck(frozenset(each.first for each in unseen[: checked.batches]), checked.waits)


def _pass_over(partition: SharePartition, pieces: Sequence[Piece], start: int) -> None:
    """Offsets that no member gets, in these pieces, which were read from an offset on."""
    expected = start
    for piece in pieces:
        if piece.first > expected:  # compaction removed the offsets between
            partition.skip(expected, piece.first - 1)
        if not piece.deliver:
            partition.skip(piece.first, piece.last)
        expected = piece.last + 1


def _records_of(pieces: Sequence[Piece], acquired: Sequence[Acquired]) -> bytes:
    """The batches that hold what was acquired; both are in the order of their offsets. Kafka sends
    the batches between these, too; clients skip the records that they have not acquired."""
    firsts = [each.first for each in acquired]
    content: list[bytes] = []
    for piece in pieces:
        at = bisect_right(firsts, piece.last) - 1
        if at >= 0 and acquired[at].last >= piece.first:
            content.append(piece.data)
    return b"".join(content)
