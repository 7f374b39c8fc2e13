"""A transaction coordinator without a broker: a clock that tests move, a log in memory, markers
that wait."""

from typing import Any

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.transactions.metadata import TV_0, TV_2, TransactionMetadata
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.control.transactions.settings import TransactionSettings
from kbroker.control.transactions.shard import TransactionShard
from kbroker.control.transactions.transaction_records import state_record
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.control.coordinator.log_in_memory import complete

START_MS = 1_700_000_000_000
ID = "payments"
PARTITION = 0
A0: TopicPartition = ("a", 0)
B1: TopicPartition = ("b", 1)


class World:
    """Drives a TransactionShard as the runtime does: records are appended, replayed, then the rest
    is run."""

    def __init__(
        self,
        log: list[Record] | None = None,
        version: int = TV_2,
        now_ms: int = START_MS,
        settings: TransactionSettings | None = None,
        next_id: int = 1000,
    ) -> None:
        self.now_ms = now_ms
        self.version = version
        self.orders: list[MarkerOrder] = []
        self.append_error = ErrorCode.NONE
        self.next_id = next_id
        self.shard = TransactionShard(settings or TransactionSettings(), self, self)
        self.log: list[Record] = list(log or ())
        for record in self.log:
            self.shard.replay(PARTITION, record.key, record.value, now_ms)
        self.shard.loaded(PARTITION, now_ms)

    # --- Markers and View

    def send(self, order: MarkerOrder) -> None:
        self.orders.append(order)

    def forget(self, transactional_id: str) -> None:
        self.orders = [order for order in self.orders if order.transactional_id != transactional_id]

    def transaction_version(self) -> int:
        return self.version

    def coordinator_epoch(self, transactional_id: str) -> int:
        return 7

    # --- runtime

    def run(self, outcome: Outcome) -> Any:
        """Append, replay, complete; the response, which must be there by then."""
        code = self.append_error if outcome.records else ErrorCode.NONE
        complete(outcome, code, self.log, self.shard, PARTITION, self.now_ms)
        response = outcome.response
        if isinstance(response, Deferred):
            given: list[Any] = []
            response.on_complete(given.append)
            (response,) = given
        return response

    def restarted(self) -> "World":
        """What a successor knows: the log, compacted."""
        compacted = {record.key: record for record in self.log}
        kept = [record for record in compacted.values() if record.value is not None]
        return World(kept, self.version, self.now_ms, self.shard.table.settings, self.next_id)

    def fresh_id(self) -> int:
        self.next_id += 1
        return self.next_id

    # --- requests

    def init(
        self, producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000, name: str = ID
    ) -> tuple[int, int]:
        """InitProducerId; (producer id, epoch). Raises KafkaError."""
        request = InitProducerIdRequest(name, timeout_ms, *producer)
        fresh = self.fresh_id() if self.shard.needs_producer_id(name) else None
        response: InitProducerIdResponse = self.run(self.shard.init_producer_id(request, fresh, self.now_ms))
        _raise(response.error_code)
        return response.producer_id, response.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = TV_0, name: str = ID
    ) -> None:
        """AddPartitionsToTxn. Raises KafkaError."""
        outcome = self.shard.add_partitions(name, *producer, frozenset(partitions), version, self.now_ms)
        _raise(self.run(outcome))

    def end(
        self, producer: tuple[int, int], commit: bool = True, version: int = TV_0, name: str = ID
    ) -> tuple[int, int]:
        """EndTxn; the producer's next id and epoch. Raises KafkaError."""
        request = EndTxnRequest(name, *producer, commit)
        fresh = self.fresh_id() if self.shard.needs_producer_id(name) else None
        response: EndTxnResponse = self.run(self.shard.end(request, version, fresh, self.now_ms))
        _raise(response.error_code)
        return response.producer_id, response.producer_epoch

    def write_markers(self) -> list[MarkerOrder]:
        """Carry out what was ordered."""
        orders, self.orders = self.orders, []
        for order in orders:
            self.shard.marker_written(order, order.partitions)
            assert self.run(self.shard.complete(order, self.now_ms)) is ErrorCode.NONE
        return orders

    def end_and_complete(self, producer: tuple[int, int], commit: bool = True) -> tuple[int, int]:
        """A whole end under transactions v2."""
        after = self.end(producer, commit, TV_2)
        self.write_markers()
        return after

    def abort_timed_out(self) -> list[str]:
        """What the abort interval does; the ids that it aborted."""
        found = [
            (known.transactional_id, known.producer_id)
            for known in self.shard.table.ongoing()
            if self.shard.is_timed_out(known, self.now_ms)
        ]
        for name, producer_id in found:
            fresh = self.fresh_id() if self.shard.needs_producer_id(name) else None
            code = self.run(self.shard.abort_timed_out(name, producer_id, fresh, self.now_ms))
            assert code is ErrorCode.NONE
        return [name for name, _ in found]

    def known(self, name: str = ID) -> TransactionMetadata:
        found = self.shard.table.get(name)
        assert found is not None
        return found

    def state(self, name: str = ID) -> str:
        return self.shard.describe(name).transaction_state


def _raise(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))


def ongoing(world: World, version: int = TV_0, name: str = ID) -> tuple[int, int]:
    """A producer with an open transaction on a-0."""
    producer = world.init(name=name)
    world.add(producer, A0, version=version, name=name)
    return producer


def near_exhaustion(version: int = TV_2, epoch: int = 32766) -> tuple[World, tuple[int, int]]:
    """A producer whose epoch is the last one, by replaying a log that says so."""
    world = World(version=version)
    producer = world.init()
    record = state_record(replace(world.known(), producer_epoch=epoch), version)
    return World([record], version, next_id=world.next_id), (producer[0], epoch)
