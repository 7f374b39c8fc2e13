"""Writes outcomes: the records are appended, replayed once they are in the log, and then the
response is sent."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kbroker.control.broker import Broker
from kbroker.control.coordinator.append_error import coordinator_error
from kbroker.control.coordinator.coordinator_topic import CoordinatorTopic
from kbroker.control.coordinator.gathering import (
    LONG_BYTES,
    MIN_RECORD_BYTES,
    Gathering,
    bytes_of,
)
from kbroker.control.coordinator.machine import (
    Deferred,
    FollowingMachine,
    Outcome,
    Record,
    TransactionalMachine,
)
from kbroker.control.links.append_queue import WRITTEN
from kbroker.control.links.appender import Appender, Done
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import build_batch
from kbroker.protocol.slices import emptied, is_sliced, paced, release

log = logging.getLogger(__name__)

MANY_RECORDS: Final = 32
"""Records of which a replay takes about a millisecond."""


class OutcomeWriter:
    """Runs in: control. Owner: a Runtime, which decides the order of outcomes. Outcomes of one
    partition are replayed in the order in which they were written."""

    def __init__(
        self,
        topic: CoordinatorTopic,
        broker: Broker,
        appender: Appender,
        slicing: Slicing,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
    ) -> None:
        self._topic = topic
        self._broker = broker
        self._appender = appender
        self._slicing = slicing
        self._timeout_ms = timeout_ms
        self._gathering = Gathering(appender, self._max_bytes, loop, timeout_ms)

    def submit(
        self,
        partition: Partition,
        outcome: Outcome,
        ended: Callable[[], object],
        in_turn: bool = True,
    ) -> Deferred:
        """The response, once the records are in the log and replayed. ended: called before it is
        sent.

        in_turn: no other operation of the key is decided or written meanwhile. Only then a long
        replay runs in slices: else that of a later operation would be done before it."""
        answer, now_ms = Deferred(), self._broker.now_ms()
        stored: Done = partial(self._stored, partition.index, outcome, now_ms, ended, answer)
        if in_turn and is_long(outcome.records):
            stored = partial(self._stored_in_slices, stored)
        self._gathering.add(partition, outcome.records, now_ms, stored)
        return answer

    def _stored_in_slices(self, stored: Done, failure: KafkaError | None) -> None:
        self._slicing.start(partial(stored, failure))

    async def write(self, partition: Partition, outcome: Outcome, producer: tuple[int, int] | None) -> None:
        """As `submit`, and wait. producer: (id, epoch) of the transaction that the records belong
        to. Raises KafkaError: the append's error when the outcome has no `then`."""
        now_ms = self._broker.now_ms()
        failure: KafkaError | None = None
        try:
            await self._append(partition, outcome.records, now_ms, producer)
        except KafkaError as error:
            failure = error.without_frames()
        code = self._code_of(partition.index, failure)
        if self._must_replay(partition.index, failure):
            if producer is None:
                self._replay(partition.index, outcome, now_ms)
            else:
                self._replay_in_transaction(partition.index, outcome, producer[0])
        if outcome.then is not None:
            outcome.then(code)
        emptied(outcome.records)
        if outcome.then is None and failure is not None:
            if is_sliced():
                release(outcome.response)
            raise KafkaError(code) from failure

    def _stored(
        self,
        index: int,
        outcome: Outcome,
        now_ms: int,
        ended: Callable[[], object],
        answer: Deferred,
        failure: KafkaError | None,
    ) -> None:
        response = outcome.response
        try:
            code = self._code_of(index, failure)
            if self._must_replay(index, failure):
                self._replay(index, outcome, now_ms)
            if outcome.then is not None:
                outcome.then(code)
            elif code is not ErrorCode.NONE:
                response = KafkaError(code)
        except Exception as error:
            log.exception("%s-%d: an operation failed after its append", self._topic.topic, index)
            response = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        ended()
        answer.follow(response)

    def _replay(self, index: int, outcome: Outcome, now_ms: int) -> None:
        if outcome.apply is not None:
            outcome.apply(index)
            return
        for record in paced(outcome.records):
            self._topic.machine.replay(index, record.key, record.value, now_ms)

    def _must_replay(self, index: int, failure: KafkaError | None) -> bool:
        """Whether the records of an append are to be replayed: they are in the log."""
        if failure is None:
            return True
        machine = self._topic.machine
        if failure.code in WRITTEN and isinstance(machine, FollowingMachine) and machine.replays_timed_out:
            self._topic.replayed_late(index)
            return True
        return False

    def _code_of(self, index: int, failure: KafkaError | None) -> ErrorCode:
        """The coordinator's error for an append's."""
        if failure is None:
            return ErrorCode.NONE
        log.warning("%s-%d: append failed: %s", self._topic.topic, index, failure)
        return coordinator_error(failure.code)

    def _replay_in_transaction(self, index: int, outcome: Outcome, producer_id: int) -> None:
        assert isinstance(self._topic.machine, TransactionalMachine)
        for record in paced(outcome.records):
            self._topic.machine.replay_in_transaction(index, producer_id, record.key, record.value)

    async def _append(
        self, partition: Partition, records: list[Record], now_ms: int, producer: tuple[int, int] | None
    ) -> None:
        if producer is None:
            await self._gathering.append(partition, records, now_ms)
            return
        if bytes_of(records) + len(records) * MIN_RECORD_BYTES > self._max_bytes():
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        content = [(record.key, record.value, (), now_ms) for record in paced(records)]
        batch = build_batch(content, producer=(*producer, -1), transactional=True)
        if len(batch) > self._max_bytes():
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        await self._appender.append(partition, batch, timeout_ms=self._timeout_ms)

    def _max_bytes(self) -> int:
        """The largest batch. Operations are gathered up to it, so that one that is too large for
        the log or the arena fails alone."""
        return self._broker.largest_batch(self._topic.topic)


def is_long(records: list[Record]) -> bool:
    """Whether a replay of the records takes long: there are many, or large ones."""
    return len(records) > MANY_RECORDS or bytes_of(records) > LONG_BYTES
