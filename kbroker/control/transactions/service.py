"""The transaction coordinator at work: the shard, the runtime that runs it, markers, and what the
clock drives."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from typing import Any

from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred, Operation
from kbroker.control.coordinator.running import Running
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.sweeps import AT_ONCE, Sweeps
from kbroker.control.groups.service import GroupService
from kbroker.control.links.appender import Appender
from kbroker.control.metadata.features import FEATURES
from kbroker.control.transactions.marker_sender import MarkerSender, MarkerWriter
from kbroker.control.transactions.metadata import supports_epoch_bump
from kbroker.control.transactions.offset_commits import PendingOffsetCommits
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.control.transactions.settings import TransactionSettings
from kbroker.control.transactions.shard import TransactionShard
from kbroker.ipc.slicing import in_turns
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

OPEN = bind("kbroker_transactions_open")
OLDEST_MS = bind("kbroker_transaction_oldest_seconds")
TIMED_OUT = bind("kbroker_transactions_timed_out_total")

COORDINATOR_TYPE = 1
"""FindCoordinator's key type."""
VERSION_FEATURE = "transaction.version"


class TransactionService:
    """Runs in: control. Owner: Services. API handlers reach it by
    `Services.transactions`. It is the machine's View."""

    def __init__(self, broker: Broker, runtime: Runtime, appender: Appender, groups: GroupService) -> None:
        self.runtime = runtime
        self.commits = PendingOffsetCommits(lambda partition: partition in groups.runtime.loaded)
        self.writer = MarkerWriter(
            broker,
            appender,
            groups.runtime.topic,
            self.commits,
            groups.shard.replay_end_of_transaction,
        )
        self._sender = MarkerSender(self.writer, self._written, self._complete)
        self.settings = TransactionSettings.of(broker.config)
        self.shard = TransactionShard(self.settings, self._sender, self)
        self._broker = broker
        self._tasks: set[asyncio.Future[None]] = set()
        self._sweeps = Sweeps(runtime)
        self._checking = False
        self.shard.table.on_change = broker.cached_answers.transaction_changed
        runtime.attach(self.shard)
        broker.coordinators[COORDINATOR_TYPE] = runtime
        broker.transactions = self

    def start(self) -> None:
        """Check for timed-out transactions and expired ids from now on."""
        self.runtime.every(self.settings.abort_interval_ms, "abort-timed-out", self._abort_timed_out)
        self.runtime.every(self.settings.remove_interval_ms, "expire-ids", self._expire)

    # --- the machine's View

    def transaction_version(self) -> int:
        """Finalized level of transaction.version; 0 when it is off."""
        return self._broker.features.get(VERSION_FEATURE, FEATURES[VERSION_FEATURE].default)

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Leader epoch of the id's partition."""
        topic = self._broker.catalogue.topics[self.runtime.topic]
        return topic.partitions[self.runtime.partition_for(transactional_id)].leader_epoch

    # --- operations

    async def run(self, transactional_id: str, operation: Operation) -> Any:
        """Run an operation of an id, after the end of its last transaction if that is near. Raises
        KafkaError."""
        self.runtime.check_topic()
        await self._sender.settled(transactional_id, self.settings.retry_backoff_max_ms)
        return await self.runtime.run(transactional_id, operation)

    def ask(self, transactional_id: str, operation: Operation) -> Any:
        """As `run`, without a task where none is needed: the result of Runtime.ask. Raises
        KafkaError."""
        self.runtime.check_topic()
        if not self._sender.is_busy(transactional_id):
            return self.runtime.ask(transactional_id, operation)
        answer = Deferred()
        self._sender.when_settled(
            transactional_id,
            self.settings.retry_backoff_max_ms,
            lambda: self._ask_then(answer.complete, transactional_id, operation),
        )
        return answer

    def _ask_then(
        self, on_answer: Callable[[Any], object], transactional_id: str, operation: Operation
    ) -> None:
        """Run an operation by Runtime.ask; call `on_answer` with its response or KafkaError."""

        def answered(found: Any) -> None:
            if isinstance(found, Exception) and not isinstance(found, KafkaError):
                log.error("%s: an operation failed", transactional_id, exc_info=found)
                found = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(found))
            on_answer(found)

        try:
            found = self.runtime.ask(transactional_id, operation)
        except Exception as error:
            answered(error)
            return
        if isinstance(found, Deferred):
            found.on_complete(answered)
        else:
            on_answer(found)

    def read(self, transactional_id: str) -> TransactionShard:
        """The shard, for a question about one id. Raises KafkaError while its partition is being
        loaded."""
        self.runtime.check_loaded(transactional_id)
        return self.shard

    def read_all(self) -> TransactionShard:
        """The shard, for a question about all ids. Raises KafkaError while any partition is being
        loaded."""
        self.runtime.check_all_loaded()
        return self.shard

    def check_exists(self) -> None:
        """Check that a broker can find the coordinator of a transaction, as Kafka's brokers do.
        Raises COORDINATOR_NOT_AVAILABLE before its topic exists."""
        self.runtime.partition_for("")

    async def _fresh_id(self, transactional_id: str) -> int | None:
        """A producer id, if the operation will need one."""
        if not self.shard.needs_producer_id(transactional_id):
            return None
        return await self._broker.producer_ids.take()

    def init_producer_id(self, request: InitProducerIdRequest) -> Any:
        """Begin or continue with a transactional id: an InitProducerIdResponse, which may carry an
        error, as `ask` gives it. Raises KafkaError."""
        self.shard.check_init(request)
        self.runtime.check_topic()
        transactional_id = request.transactional_id or ""
        fresh_id = None
        if self.shard.needs_producer_id(transactional_id):
            fresh_id = self._broker.producer_ids.take_allocated()
            if fresh_id is None:
                return Running(self._init_with_fresh_id(request, transactional_id))
        return self.ask(
            transactional_id, lambda now_ms: self.shard.init_producer_id(request, fresh_id, now_ms)
        )

    async def _init_with_fresh_id(
        self, request: InitProducerIdRequest, transactional_id: str
    ) -> InitProducerIdResponse:
        fresh_id = await self._fresh_id(transactional_id)
        response: InitProducerIdResponse = await self.run(
            transactional_id, lambda now_ms: self.shard.init_producer_id(request, fresh_id, now_ms)
        )
        return response

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
        client_version: int,
    ) -> ErrorCode:
        """Add partitions to a transaction."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        try:
            code: ErrorCode = await self.run(
                transactional_id,
                lambda now_ms: self.shard.add_partitions(
                    transactional_id, producer_id, producer_epoch, partitions, client_version, now_ms
                ),
            )
        except KafkaError as error:
            return error.code
        return code

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Set[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Look partitions up in a transaction, at once. Raises KafkaError."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        shard = self.read(transactional_id)
        return shard.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)

    def end(self, request: EndTxnRequest, client_version: int) -> Any:
        """Commit or abort: an EndTxnResponse, which may carry an error, as `ask` gives it. Raises
        KafkaError."""
        transactional_id = request.transactional_id
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        self.runtime.check_topic()
        known = self.shard.table.get(transactional_id) is not None
        if supports_epoch_bump(client_version) and known and self.shard.needs_producer_id(transactional_id):
            return Running(self._end_with_fresh_id(request, client_version))
        return self.ask(
            transactional_id, lambda now_ms: self.shard.end(request, client_version, None, now_ms)
        )

    async def _end_with_fresh_id(self, request: EndTxnRequest, client_version: int) -> EndTxnResponse:
        fresh_id = await self._fresh_id(request.transactional_id)
        response: EndTxnResponse = await self.run(
            request.transactional_id, lambda now_ms: self.shard.end(request, client_version, fresh_id, now_ms)
        )
        return response

    # --- markers

    def _written(self, order: MarkerOrder, partitions: Set[TopicPartition]) -> None:
        self.shard.marker_written(order, partitions)

    def _complete(self, order: MarkerOrder, on_answer: Callable[[ErrorCode], None]) -> None:
        self._ask_then(
            lambda found: on_answer(found.code if isinstance(found, KafkaError) else found),
            order.transactional_id,
            lambda now_ms: self.shard.complete(order, now_ms),
        )

    # --- timers

    def _abort_timed_out(self) -> None:
        if not self._checking:
            self._checking = True
            self._start(self._check_ongoing(), "the check of open transactions")

    async def _check_ongoing(self) -> None:
        """Count the open transactions, and abort those that are past their timeout and whose
        partition is loaded."""
        now_ms = self._broker.now_ms()
        words = self._broker.metrics.words
        count, since_ms = 0, now_ms
        aborts: list[asyncio.Future[None]] = []
        try:
            async for known in in_turns(self.shard.table.ongoing()):
                count += 1
                since_ms = min(since_ms, max(0, known.start_ms))
                due = self.shard.is_timed_out(known, now_ms)
                if due and self.runtime.is_loaded(known.transactional_id):
                    words[TIMED_OUT] += 1
                    log.info("%s: aborted: the transaction timed out", known.transactional_id)
                    abort = self._abort(known.transactional_id, known.producer_id)
                    aborts.append(self._start(abort, known.transactional_id))
                    if len(aborts) >= AT_ONCE:
                        await asyncio.wait(aborts)
                        aborts.clear()
            words[OPEN], words[OLDEST_MS] = count, now_ms - since_ms
        finally:
            self._checking = False

    async def _abort(self, transactional_id: str, producer_id: int) -> None:
        fresh_id = await self._fresh_id(transactional_id)
        await self.runtime.run(
            transactional_id,
            lambda now_ms: self.shard.abort_timed_out(transactional_id, producer_id, fresh_id, now_ms),
        )

    def _expire(self) -> None:
        self._sweeps.repeat("expire-ids", self.shard.table.ids, self._expiry_of)

    def _expiry_of(self, transactional_id: str) -> Operation | None:
        expired = self.shard.is_expired(transactional_id, self._broker.now_ms())
        if not expired or not self.runtime.is_loaded(transactional_id):
            return None
        return lambda now_ms: self.shard.expire(transactional_id, now_ms)

    def _start(self, work: Awaitable[None], transactional_id: str) -> "asyncio.Future[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_warn(transactional_id))
        return task


def _warn(transactional_id: str) -> Callable[["asyncio.Future[None]"], None]:
    def log_failure(task: "asyncio.Future[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("%s: failed: %s", transactional_id, error)

    return log_failure
