"""Carries out marker orders: one marker to each partition of a transaction, again until it is in the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kbroker.control.appender import Appender
from kbroker.control.broker import Broker
from kbroker.control.transactions.metadata import TopicPartition, supports_epoch_bump
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.ipc import layout
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import ControlType, build_control_batch

log = logging.getLogger(__name__)

RETRY_S = 0.1
NEWER_KNOWN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

Ended = Callable[[int, int, bool], None]
"""Told of a marker in the offsets topic: partition, producer id, commit."""


class MarkerWriter:
    """Writes single markers. Runs in: control. Owner: the TransactionService.

    offsets_topic: the topic whose markers the group coordinator wants to know of, once it has loaded the partition.
    """

    def __init__(
        self,
        broker: Broker,
        appender: Appender,
        offsets_topic: str,
        offsets_ready: Callable[[int, int], Awaitable[None]],
        offsets_ended: Ended,
    ) -> None:
        self._broker = broker
        self._appender = appender
        self._offsets_topic = offsets_topic
        self._offsets_ready = offsets_ready
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
        """Append one marker. version: the producer's transaction version; from 2 on the epoch must be a new one.

        Raises KafkaError, UNKNOWN_TOPIC_OR_PARTITION for a partition that is no more."""
        topic, index = where
        is_offsets = topic == self._offsets_topic
        if is_offsets:
            await self._offsets_ready(index, producer_id)
        partition = self._broker.catalogue.partition(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        batch = build_control_batch(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._broker.now_ms(),
            base_offset=layout.MARKER_WITH_NEW_EPOCH if supports_epoch_bump(version) else 0,
        )
        await self._appender.append(partition, batch)
        if is_offsets:
            self._offsets_ended(index, producer_id, commit)


class MarkerSender:
    """Orders under way, one task each. Runs in: control. Owner: the TransactionService. It is the machine's Markers.

    written: told of partitions whose marker is in the log; done: run when all are, until it says NONE.
    """

    def __init__(
        self,
        writer: MarkerWriter,
        written: Callable[[MarkerOrder, frozenset[TopicPartition]], None],
        done: Callable[[MarkerOrder], Awaitable[ErrorCode]],
    ) -> None:
        self._writer = writer
        self._written = written
        self._done = done
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def send(self, order: MarkerOrder) -> None:
        """Begin; an older order of the id has been completed or is out of date."""
        self.forget(order.transactional_id)
        task = asyncio.get_running_loop().create_task(self._carry_out(order))
        self._tasks[order.transactional_id] = task
        task.add_done_callback(lambda _: self._finished(order.transactional_id, task))

    def forget(self, transactional_id: str) -> None:
        """Stop working for an id."""
        task = self._tasks.pop(transactional_id, None)
        if task is not None:
            task.cancel()

    def _finished(self, transactional_id: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(transactional_id) is task:
            del self._tasks[transactional_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("markers of %s failed", transactional_id, exc_info=error)

    def is_busy(self, transactional_id: str) -> bool:
        """Whether markers of the id are under way."""
        return transactional_id in self._tasks

    async def settled(self, transactional_id: str, timeout_ms: int) -> None:
        """Wait until the id's transaction is complete, but not longer than the timeout."""
        task = self._tasks.get(transactional_id)
        if task is not None:
            await asyncio.wait((task,), timeout=timeout_ms / 1000)

    async def _carry_out(self, order: MarkerOrder) -> None:
        if order.partitions:
            await asyncio.gather(*(self._write(order, where) for where in sorted(order.partitions)))
        while await self._done(order) is not ErrorCode.NONE:
            await asyncio.sleep(RETRY_S)

    async def _write(self, order: MarkerOrder, where: TopicPartition) -> None:
        while True:
            try:
                await self._writer.write(
                    where,
                    order.producer_id,
                    order.producer_epoch,
                    order.coordinator_epoch,
                    order.commit,
                    order.client_version,
                )
            except KafkaError as error:
                if not self._is_settled(order, where, error):
                    await asyncio.sleep(RETRY_S)
                    continue
            self._written(order, frozenset((where,)))
            return

    def _is_settled(self, order: MarkerOrder, where: TopicPartition, error: KafkaError) -> bool:
        """Whether there is nothing left to write: the partition is no more, or knows a newer epoch of the producer,
        which only begins after the marker has been written."""
        if error.code in NEWER_KNOWN or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.info("%s: no marker for %s-%d: %s", order.transactional_id, *where, error)
            return True
        log.warning("%s: marker for %s-%d is tried again: %s", order.transactional_id, *where, error)
        return False

    def close(self) -> None:
        """Stop; a successor finishes what is prepared."""
        for transactional_id in list(self._tasks):
            self.forget(transactional_id)
