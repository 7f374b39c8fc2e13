"""Runs a coordinator: the machine decides the operations of a key in turn, and an OutcomeWriter
writes the outcomes.

As Kafka's CoordinatorRuntime, with one difference: operations of one key run one after the other,
each sees the replayed records of the previous one, so nothing is ever rolled back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct, field

from kbroker.control.broker import Broker
from kbroker.control.coordinator.coordinator_topic import CoordinatorTopic
from kbroker.control.coordinator.machine import Deferred, FastPath, Operation
from kbroker.control.coordinator.operation_timers import OperationTimers
from kbroker.control.coordinator.outcome_writer import OutcomeWriter
from kbroker.control.coordinator.running import Running, completion
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.control.links.appender import DEFAULT_TIMEOUT_MS, Appender
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import is_sliced, yield_slice

log = logging.getLogger(__name__)

IN_A_TURN: Final = 32
"""Waiting operations of a key that are decided in one turn of the loop: about a millisecond."""

SETTLING_S: Final = 0.01
"""Pause between two checks whether the operations of a partition have ended."""


class Independent(Struct):
    """Pending operations of one key that need not see each other's records. tail: ends with the
    last one."""

    tail: "asyncio.Future[None]"
    count: int = 0


class Queued(Struct):
    """Operations of one key that wait for an earlier one, and are then decided one after the other.
    tail: ends with the last one."""

    tail: "asyncio.Future[None]"
    operations: deque[tuple[Operation, Deferred]] = field(default_factory=deque)


class Runtime(CoordinatorTopic):
    """One running coordinator. Runs in: control. Owner: the process's main.

    fast_path: decides operations before this runtime, or None. timers: those of the
    machine. timeout_ms: the maximum time until the records of an operation are in the log and
    replicated.
    """

    def __init__(
        self,
        broker: Broker,
        appender: Appender,
        topic: str,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        super().__init__(broker, topic)
        self.fast_path: FastPath | None = None
        self.timeout_ms = timeout_ms
        self._wheel = WheelTimers(loop)
        self.timers = OperationTimers(self._wheel, self.start)
        self._tails: dict[str, asyncio.Future[None]] = {}
        self._independent: dict[str, Independent] = {}
        self._queued: dict[str, Queued] = {}
        self._slicing = Slicing()
        self._writer = OutcomeWriter(self, broker, appender, self._slicing, loop, timeout_ms)
        self._appender = appender
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = loop

    def _forget_all(self) -> None:
        if self.fast_path is not None:
            self.fast_path.forget_all()

    async def _settled(self, index: int) -> None:
        while (topic := self._broker.catalogue.get(self.topic)) is not None:
            pending = any(self.partition_for(key) == index for key in self._tails)
            if not pending and self._appender.is_idle(topic.partitions[index]):
                return
            await asyncio.sleep(SETTLING_S)

    # --- operations -------------------------------------------------------------------------------------

    async def run(self, key: str, operation: Operation, producer: tuple[int, int] | None = None) -> Any:
        """Run an operation in turn with the key's others; returns its response, or the value of a
        Deferred once it is complete.

        producer: (id, epoch) of the transaction that the records belong to. Raises KafkaError: the
        machine's refusal, or an append's error when the outcome has no `then`.
        """
        response = await self._in_turn(key, operation, producer)
        return await completion(response) if isinstance(response, Deferred) else response

    def ask(self, key: str, operation: Operation, by_records: bool = False) -> Any:
        """As `run`, but without a task, and decided before this returns when no other operation of
        the key is pending.

        by_records: the operation changes the state that the fast path's decisions depend on by
        records alone. Returns the response when there is nothing to write or wait for, else a
        Deferred of it (or of the KafkaError). Raises KafkaError.
        """
        if not by_records:
            self._leave_fast_path(key)
        if key in self._tails:
            if by_records:
                self._leave_fast_path(key)
            return self._ask_later(key, operation)
        partition = self._partition(key)
        own_tail: asyncio.Future[None] = self._loop.create_future()
        self._tails[key] = own_tail  # in slices it may stop in the middle: other operations of the key wait
        written = False
        try:
            outcome = operation(self._broker.now_ms())
            if by_records and self.fast_path is not None and (outcome.records or outcome.then is not None):
                self.fast_path.forget(key)
            written = bool(outcome.records)
            if written:
                return self._writer.submit(partition, outcome, partial(self._next_turn, key, own_tail))
            if outcome.then is not None:
                outcome.then(ErrorCode.NONE)
            return outcome.response
        finally:
            if not written:
                self._next_turn(key, own_tail)

    def is_idle(self, key: str) -> bool:
        """Whether no operation of a key is pending. Raises KafkaError while its partition is not
        loaded."""
        self._partition(key)
        return key not in self._tails and not (self.fast_path is not None and self.fast_path.in_flight(key))

    def _ask_later(self, key: str, operation: Operation) -> Deferred:
        """The response of an operation that waits for pending ones. A rebalance has hundreds of
        these: so that each needs no task and no turn of the loop."""
        queued = self._queued.get(key)
        if queued is None or self._tails[key] is not queued.tail:
            before = self._tails[key]
            queued = self._queued[key] = Queued(self._loop.create_future())
            self._tails[key] = queued.tail
            before.add_done_callback(partial(self._decide, key, queued))
        answer = Deferred()
        queued.operations.append((operation, answer))
        return answer

    def _decide(self, key: str, queued: Queued, _: object = None) -> None:
        """Decide queued operations, in slices: one may be about all members of a large group."""
        self._slicing.start(partial(self._decide_some, key, queued))

    def _decide_some(self, key: str, queued: Queued) -> None:
        """Decide operations up to the first that has records: the next ones wait for these."""
        for _ in range(IN_A_TURN):
            yield_slice()
            if not queued.operations:
                if self._queued.get(key) is queued:
                    del self._queued[key]
                self._next_turn(key, queued.tail)
                return
            operation, answer = queued.operations.popleft()
            try:
                partition = self._partition(key)
                outcome = operation(self._broker.now_ms())
                if outcome.records:
                    next_ones = partial(self._loop.call_soon, self._decide, key, queued)
                    self._writer.submit(partition, outcome, next_ones).on_complete(answer.complete)
                    return
                if outcome.then is not None:
                    outcome.then(ErrorCode.NONE)
                answer.follow(outcome.response)
            except Exception as error:
                error.__traceback__ = None  # its frames hold the request
                if not answer.complete(error):
                    log.error("%s: a late answer was dropped: %r", self.topic, error)
        self._loop.call_soon(self._decide, key, queued)

    def ask_concurrently(self, key: str, operation: Operation) -> Any:
        """As `ask`, for operations that need not see pending ones of their kind (commits of
        offsets)."""
        tail = self._tails.get(key)
        group = self._independent.get(key)
        if is_sliced() or (tail is not None and (group is None or group.tail is not tail)):
            return Running(self.run(key, operation))
        partition = self._partition(key)
        outcome = operation(self._broker.now_ms())
        assert outcome.then is None
        if not outcome.records:
            return outcome.response
        if group is None:
            group = self._independent[key] = Independent(self._loop.create_future())
            self._tails[key] = group.tail
        group.count += 1
        return self._writer.submit(partition, outcome, partial(self._ended, key, group), in_turn=False)

    def _ended(self, key: str, group: Independent) -> None:
        group.count -= 1
        if not group.count:
            if self._independent.get(key) is group:
                del self._independent[key]
            self._next_turn(key, group.tail)

    def _leave_fast_path(self, key: str) -> None:
        """An operation that is decided here waits for the pending operations of the fast path, as
        for the independent ones."""
        fast_path = self.fast_path
        if fast_path is None:
            return
        fast_path.forget(key)
        if fast_path.in_flight(key):
            group = self._independent.get(key)
            if group is None:
                group = self._independent[key] = Independent(self._loop.create_future())
                self._tails.setdefault(key, group.tail)
            group.count += 1
            fast_path.when_idle(key, partial(self._ended, key, group))

    def _next_turn(self, key: str, own_tail: "asyncio.Future[None]") -> None:
        own_tail.set_result(None)
        if self._tails.get(key) is own_tail:
            del self._tails[key]

    async def _in_turn(self, key: str, operation: Operation, producer: tuple[int, int] | None = None) -> Any:
        self._leave_fast_path(key)
        before = self._tails.get(key)
        own_tail: asyncio.Future[None] = self._loop.create_future()
        self._tails[key] = own_tail
        try:
            if before is not None:
                await asyncio.shield(before)  # a cancelled wait cancels no operation before it
            partition = self._partition(key)
            outcome = operation(self._broker.now_ms())
            if outcome.records:
                await self._writer.write(partition, outcome, producer)
            elif outcome.then is not None:
                outcome.then(ErrorCode.NONE)
            return outcome.response
        finally:
            self._next_turn(key, own_tail)

    # --- timers -----------------------------------------------------------------------------------------

    def before_timers(self, action: Callable[[], None]) -> None:
        """Call each time before timers fire."""
        self._wheel.before_advance = action

    def start(self, key: str, operation: Operation) -> "asyncio.Task[None]":
        """Run an operation without a waiter for its response, in slices: a timer may be about very
        much. Its task."""

        async def run() -> None:
            try:
                await self._in_turn(key, operation)
            except KafkaError as error:
                log.warning("%s: a timer's operation on %s failed: %s", self.topic, key, error)

        task = self._loop.create_task(self._slicing.run_steps(run()))
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: an operation failed", self.topic, exc_info=error)

    def every(self, interval_ms: int, name: str, action: Callable[[], object]) -> None:
        """Call the action at each interval."""

        def again() -> None:
            self._wheel.schedule(name, interval_ms, again)
            action()

        self._wheel.schedule(name, interval_ms, again)

    def close(self) -> None:
        """Cancel all timers and operations."""
        self.timers.close()
        for task in self._tasks:
            task.cancel()
