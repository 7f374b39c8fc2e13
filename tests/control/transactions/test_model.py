"""Random histories of producers, zombies, time-outs, restarts and lost answers against what
exactly-once promises.

The model keeps the partitions' logs as an IO worker would: a batch goes into its producer's open
transaction or begins one that the coordinator knows; a marker of an older epoch is refused. Every
answer to a producer must come true.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kbroker.control.transactions.metadata import TV_0, TV_2
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.transactions.world import A0, B1, ID, World

PARTITIONS = st.sampled_from([A0, B1, ("c", 2)])
FAILURES = st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])


@dataclass
class Log:
    """One partition: epochs and open transactions of producers, and how each transaction's records
    ended."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, set[int]] = field(default_factory=dict)  # producer id -> transactions with records
    ended: dict[int, set[bool]] = field(default_factory=dict)  # transaction -> outcomes

    def append(self, producer_id: int, epoch: int, transaction: int) -> None:
        self.epochs[producer_id] = max(epoch, self.epochs.get(producer_id, 0))
        self.open.setdefault(producer_id, set()).add(transaction)

    def mark(self, order: MarkerOrder) -> None:
        if order.producer_epoch < self.epochs.get(order.producer_id, 0):
            return
        self.epochs[order.producer_id] = order.producer_epoch
        for transaction in self.open.pop(order.producer_id, set()):
            self.ended.setdefault(transaction, set()).add(order.commit)


@dataclass
class Producer:
    """A client. transaction: the model's name for what it is writing now."""

    version: int
    identity: tuple[int, int]
    transaction: int
    wrote: set[TopicPartition] = field(default_factory=set)
    ending: bool | None = None  # the outcome it has asked for without getting an answer


class Coordination(RuleBasedStateMachine):
    """One transactional id, many incarnations of its producer."""

    @initialize(server=st.sampled_from([1, 2]))
    def begin(self, server: int) -> None:
        self.world = World(version=server)
        self.logs: dict[TopicPartition, Log] = {}
        self.producers: list[Producer] = []
        self.promised: dict[int, bool] = {}
        self.written: dict[int, set[TopicPartition]] = {}
        self.identities: set[tuple[int, int]] = set()
        self.serial = 0

    def log(self, where: TopicPartition) -> Log:
        return self.logs.setdefault(where, Log())

    def next_transaction(self) -> int:
        self.serial += 1
        return self.serial

    @rule(v2=st.booleans())
    def start_producer(self, v2: bool) -> None:
        version = TV_2 if v2 and self.world.version == 2 else TV_0
        try:
            identity = self.world.init()
        except KafkaError:
            return  # a predecessor's transaction is being ended
        assert identity not in self.identities, "two producers share an identity"
        self.identities.add(identity)
        self.producers.append(Producer(version, identity, self.next_transaction()))

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), where=PARTITIONS, failure=FAILURES)
    def produce(self, data: st.DataObject, where: TopicPartition, failure: ErrorCode) -> None:
        producer = data.draw(st.sampled_from(self.producers))
        if producer.ending is not None:
            return  # it asks for the end until it has an answer
        producer_id, epoch = producer.identity
        log = self.log(where)
        # A client adds a partition to each transaction again, though the log may still wait for the
        # marker of the last.
        is_open = where in producer.wrote and producer_id in log.open and log.epochs.get(producer_id) == epoch
        if log.epochs.get(producer_id, 0) > epoch:
            return  # the partition fences it
        if not is_open:
            self.world.append_error = failure
            try:
                self.world.add(producer.identity, where, version=producer.version)
            except KafkaError:
                return
            finally:
                self.world.append_error = ErrorCode.NONE
        log.append(producer_id, epoch, producer.transaction)
        producer.wrote.add(where)
        self.written.setdefault(producer.transaction, set()).add(where)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), commit=st.booleans(), failure=FAILURES, lost=st.booleans())
    def end(self, data: st.DataObject, commit: bool, failure: ErrorCode, lost: bool) -> None:
        producer = data.draw(st.sampled_from(self.producers))
        commit = commit if producer.ending is None else producer.ending
        producer.ending = commit
        self.world.append_error = failure
        try:
            after = self.world.end(producer.identity, commit, producer.version)
        except KafkaError:
            return
        finally:
            self.world.append_error = ErrorCode.NONE
        if lost:
            return  # the answer did not arrive
        producer.ending = None
        if producer.wrote:
            self.promised[producer.transaction] = commit
        if producer.version == TV_2:
            assert after not in self.identities, "two transactions share an identity"
            self.identities.add(after)
            producer.identity = after
        producer.transaction = self.next_transaction()
        producer.wrote = set()

    @precondition(lambda self: self.world.orders)
    @rule(some=st.booleans())
    def write_markers(self, some: bool) -> None:
        """All of them, or only some before control dies."""
        orders = list(self.world.orders)
        for order in orders:
            partitions = sorted(order.partitions)[: 1 if some else None]
            for where in partitions:
                self.log(where).mark(order)
            if not some:
                self.world.shard.marker_written(order, order.partitions)
                self.world.run(self.world.shard.complete(order, self.world.now_ms))
        if some:
            self.restart()
        else:
            self.world.orders = [order for order in self.world.orders if order not in orders]

    @rule()
    def restart(self) -> None:
        self.world = self.world.restarted()

    @rule(ms=st.sampled_from([10, 30_000, 61_000]))
    def let_time_pass(self, ms: int) -> None:
        self.world.now_ms += ms
        self.world.abort_timed_out()

    @invariant()
    def no_transaction_ends_both_ways(self) -> None:
        for where, log in self.logs.items():
            for transaction, outcomes in log.ended.items():
                assert len(outcomes) == 1, f"{where}: transaction {transaction} was committed and aborted"

    def teardown(self) -> None:
        """When everything has come to rest, every promise holds and nothing hangs."""
        if not hasattr(self, "world"):
            return
        for _ in range(3):
            for order in list(self.world.orders):
                for where in sorted(order.partitions):
                    self.log(where).mark(order)
            self.world.write_markers()
            self.world.now_ms += 61_000
            self.world.abort_timed_out()
        assert self.world.shard.table.get(ID) is None or self.world.known().state.is_over
        for where, log in self.logs.items():
            assert not log.open, f"{where} has a hanging transaction"
        for transaction, commit in self.promised.items():
            outcomes = {
                outcome
                for where in self.written[transaction]
                for outcome in self.logs[where].ended[transaction]
            }
            assert outcomes == {commit}, f"transaction {transaction} was promised commit={commit}"


TestCoordination = Coordination.TestCase
TestCoordination.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
