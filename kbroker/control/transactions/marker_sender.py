"""Carries out marker orders: one marker to each partition of a transaction, again until it is in
the log."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct, field

from kbroker.control.broker import Broker
from kbroker.control.coordinator.acknowledged import acknowledged, is_acknowledged
from kbroker.control.links.appender import Appender, Done, completion_of
from kbroker.control.transactions.metadata import supports_epoch_bump
from kbroker.control.transactions.offset_commits import PendingOffsetCommits
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.ipc.layout import AppendEntry
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import ControlType, build_control_batch

log = logging.getLogger(__name__)

RETRY_S, MAX_RETRY_S = 0.1, 2.0
"""First and longest pause between attempts: a log dir may be offline for days, and each attempt
logs a line."""
NEWER_KNOWN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

Ended = Callable[[int, int, bool], None]
"""Called after a marker in the offsets topic: partition, producer id, commit."""
Complete = Callable[[MarkerOrder, Callable[[ErrorCode], None]], None]
"""Stores that an order is complete and calls back with NONE, or with the error."""


class MarkerWriter:
    """Writes single markers. Runs in: control. Owner: the TransactionService.

    offsets_topic: the topic whose markers the group coordinator wants to know of, once it has
    loaded the partition. commits: a marker there has to wait until they are settled.
    """

    def __init__(
        self,
        broker: Broker,
        appender: Appender,
        offsets_topic: str,
        commits: PendingOffsetCommits,
        offsets_ended: Ended,
    ) -> None:
        self._broker = broker
        self._appender = appender
        self._offsets_topic = offsets_topic
        self._commits = commits
        self._offsets_ended = offsets_ended

    async def write(
        self,
        where: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        version: int,
    ) -> None:
        """Append one marker. version: the producer's transaction version; from 2 on the epoch must
        be a new one.

        Raises KafkaError, UNKNOWN_TOPIC_OR_PARTITION for a deleted partition, and at once
        NOT_LEADER_OR_FOLLOWER, as Kafka, for one that the group coordinator has not loaded: it may
        never be."""
        topic, index = where
        if (
            topic == self._offsets_topic
            and self._broker.catalogue.partition(topic, index) is not None
            and not self._commits.is_loaded(index)
        ):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await self.write_order(
            MarkerOrder(
                "", producer_id, producer_epoch, coordinator_epoch, commit, frozenset((where,)), version
            ),
            where,
        )

    async def write_order(self, order: MarkerOrder, where: TopicPartition) -> None:
        """Append one marker of an order. Raises KafkaError."""
        if not self._is_ready(order, where):
            await self._commits.settled(where[1], order.producer_id)
        await completion_of(partial(self._append, order, where))

    def submit(self, order: MarkerOrder, where: TopicPartition, done: Done) -> bool:
        """As `write_order`, without a task; False when it would have to wait first."""
        if not self._is_ready(order, where):
            return False
        self._append(order, where, done)
        return True

    def _is_ready(self, order: MarkerOrder, where: TopicPartition) -> bool:
        topic, index = where
        return topic != self._offsets_topic or self._commits.are_settled(index, order.producer_id)

    def _append(self, order: MarkerOrder, where: TopicPartition, done: Done) -> None:
        topic, index = where
        partition = self._broker.catalogue.partition(topic, index)
        if partition is None:
            done(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        batch = build_control_batch(
            ControlType.COMMIT if order.commit else ControlType.ABORT,
            producer_id=order.producer_id,
            producer_epoch=order.producer_epoch,
            coordinator_epoch=order.coordinator_epoch,
            timestamp_ms=self._broker.now_ms(),
            base_offset=AppendEntry.MARKER_WITH_NEW_EPOCH if supports_epoch_bump(order.client_version) else 0,
        )
        if topic == self._offsets_topic:
            done = partial(self._report, order, index, done)
        self._appender.submit(partition, batch, done)

    def is_safe(self, where: TopicPartition) -> bool:
        """Whether a marker that is in a partition's log cannot be lost; True without a
        partition."""
        partition = self._broker.catalogue.partition(*where)
        return partition is None or is_acknowledged(self._broker, partition)

    async def safe(self, where: TopicPartition) -> None:
        """Wait until the markers in a partition's log cannot be lost. Raises NOT_LEADER_OR_FOLLOWER
        when they may be."""
        partition = self._broker.catalogue.partition(*where)
        if partition is not None:
            await acknowledged(self._broker, partition)

    def was_written(self, order: MarkerOrder, where: TopicPartition) -> None:
        """A partition has a marker of an order since an append whose end is not known."""
        topic, index = where
        if topic == self._offsets_topic:
            self._offsets_ended(index, order.producer_id, order.commit)

    def _report(self, order: MarkerOrder, index: int, done: Done, failure: KafkaError | None) -> None:
        if failure is None:
            self._offsets_ended(index, order.producer_id, order.commit)
        done(failure)


class PendingMarkers(Struct, eq=False):
    """An order in progress. left: partitions whose marker is not in the log. waiting: called, in
    order, when the order is complete or was given up. pauses: seconds before the next attempts."""

    order: MarkerOrder
    left: set[TopicPartition]
    ended: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    waiting: dict["Wait", None] = field(default_factory=dict)
    pauses: dict[TopicPartition | None, float] = field(default_factory=dict)

    def pause(self, where: TopicPartition | None) -> float:
        """Seconds before the next attempt to write a marker, or (None) to complete the order."""
        pause_s = self.pauses.get(where, RETRY_S)
        self.pauses[where] = min(2 * pause_s, MAX_RETRY_S)
        return pause_s


class Wait:
    """A wait for the end of an order, at most for a timeout. `then` is called once. Until then the
    wait is in `waiting`: an order may need days, and clients ask every second."""

    __slots__ = ("_then", "_timer", "_waiting")

    def __init__(self, timeout_ms: int, then: Callable[[], None], waiting: dict["Wait", None]) -> None:
        self._then: Callable[[], None] | None = then
        self._timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.end)
        self._waiting = waiting
        waiting[self] = None

    def end(self) -> None:
        """Call `then` and stop the timer; nothing happens if the wait has ended already."""
        then, self._then = self._then, None
        if then is not None:
            self._timer.cancel()
            self._waiting.pop(self, None)
            then()


class MarkerSender:
    """Pending orders. Runs in: control. Owner: the TransactionService. It is the machine's Markers.

    written: called with partitions whose marker is in the log, while others are left; complete:
    called when all are, until it returns NONE. Only failures need a task.
    """

    def __init__(
        self,
        writer: MarkerWriter,
        written: Callable[[MarkerOrder, frozenset[TopicPartition]], None],
        complete: Complete,
    ) -> None:
        self._writer = writer
        self._written = written
        self._complete = complete
        self._orders: dict[str, PendingMarkers] = {}

    def send(self, order: MarkerOrder) -> None:
        """Begin; an older order of the id has been completed or is out of date."""
        self.forget(order.transactional_id)
        pending = self._orders[order.transactional_id] = PendingMarkers(order, set(order.partitions))
        for where in sorted(order.partitions):
            if not self._writer.submit(order, where, partial(self._append_ended, pending, where)):
                self._start(pending, self._write_late(pending, where, 0))
        if not order.partitions:
            self._all_written(pending)

    def forget(self, transactional_id: str) -> None:
        """Stop working for an id."""
        pending = self._orders.get(transactional_id)
        if pending is not None:
            self._end(pending)

    def is_busy(self, transactional_id: str) -> bool:
        """Whether markers of the transactional id are being written."""
        return transactional_id in self._orders

    def when_settled(self, transactional_id: str, timeout_ms: int, then: Callable[[], None]) -> None:
        """Resume when the id's transaction is complete, but not later than the timeout."""
        pending = self._orders.get(transactional_id)
        if pending is None:
            then()
        else:
            Wait(timeout_ms, then, pending.waiting)

    async def settled(self, transactional_id: str, timeout_ms: int) -> None:
        """As `when_settled`."""
        if not self.is_busy(transactional_id):
            return
        settled = asyncio.Event()
        self.when_settled(transactional_id, timeout_ms, settled.set)
        await settled.wait()

    def _append_ended(
        self, pending: PendingMarkers, where: TopicPartition, failure: KafkaError | None
    ) -> None:
        """The end of an append: in the log, nothing to write any more, or to be tried again."""
        if pending.ended:
            return
        try:
            if failure is not None and not self._is_settled(pending.order, where, failure):
                self._start(pending, self._write_late(pending, where, pending.pause(where)))
            elif failure is not None and failure.code in NEWER_KNOWN and not self._writer.is_safe(where):
                self._start(pending, self._when_safe(pending, where, failure))
            else:
                self._ended(pending, where, failure)
        except Exception:
            log.exception("markers of %s failed", pending.order.transactional_id)
            self._end(pending)

    def _ended(self, pending: PendingMarkers, where: TopicPartition, failure: KafkaError | None) -> None:
        if failure is not None and failure.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            self._writer.was_written(pending.order, where)
        pending.left.discard(where)
        if pending.left:
            self._written(pending.order, frozenset((where,)))
        else:
            self._all_written(pending)

    async def _when_safe(self, pending: PendingMarkers, where: TopicPartition, failure: KafkaError) -> None:
        """The marker is in the log since an earlier append that has not ended: its sync may
        hang."""
        try:
            await self._writer.safe(where)
        except KafkaError as error:
            self._append_ended(pending, where, error)
        else:
            if not pending.ended:
                self._ended(pending, where, failure)

    async def _write_late(self, pending: PendingMarkers, where: TopicPartition, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self._writer.write_order(pending.order, where)
        except KafkaError as error:
            self._append_ended(pending, where, error)
        else:
            self._append_ended(pending, where, None)

    def _all_written(self, pending: PendingMarkers) -> None:
        if not pending.ended:
            self._complete(pending.order, partial(self._completed, pending))

    def _completed(self, pending: PendingMarkers, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self._end(pending)
        elif not pending.ended:
            asyncio.get_running_loop().call_later(pending.pause(None), self._all_written, pending)

    def _end(self, pending: PendingMarkers) -> None:
        pending.ended = True
        transactional_id = pending.order.transactional_id
        if self._orders.get(transactional_id) is pending:
            del self._orders[transactional_id]
        for task in pending.tasks:
            task.cancel()
        for wait in list(pending.waiting):
            wait.end()

    def _start(self, pending: PendingMarkers, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        pending.tasks.add(task)
        task.add_done_callback(partial(self._finished, pending))

    def _finished(self, pending: PendingMarkers, task: asyncio.Task[None]) -> None:
        pending.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("markers of %s failed", pending.order.transactional_id, exc_info=error)
            self._end(pending)

    def _is_settled(self, order: MarkerOrder, where: TopicPartition, error: KafkaError) -> bool:
        """Whether there is nothing left to write: the partition is deleted, or has a newer epoch of
        the producer, which only begins after the marker has been written."""
        if error.code in NEWER_KNOWN or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.info("%s: no marker for %s-%d: %s", order.transactional_id, *where, error)
            return True
        log.warning("%s: retrying the marker for %s-%d: %s", order.transactional_id, *where, error)
        return False

    def close(self) -> None:
        """Stop; a successor finishes what is prepared."""
        for transactional_id in list(self._orders):
            self.forget(transactional_id)
