"""A conversation about transactions with one broker: as about groups, with producer ids levelled
out, too."""

import time
from typing import Any

from msgspec.structs import replace

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kbroker.protocol.records import RecordBatch, build_batch, read_batches, read_marker
from tests.compat.group_talk import Talk

Producer = tuple[int, int]
NOT_NOW = {14, 51}
"""COORDINATOR_LOAD_IN_PROGRESS, also Kafka's answer while it fetches producer ids;
CONCURRENT_TRANSACTIONS."""
LONG = 1 << 31
"""Producer ids in these conversations that no broker has handed out are larger."""
STRANGER: Producer = (LONG + 1, 0)
TIMEOUT_MS = 60_000
_PRODUCER_IDS = {"producer_id", "previous_producer_id", "next_producer_id"}
_TIMES = {"transaction_start_time_ms", "log_append_time_ms", "last_timestamp"}


class TransactionTalk(Talk):
    """Ids are `<prefix>-<name>`; answers that only say "the last one is still completing" are not
    written down."""

    def find_transaction_coordinator(self) -> None:
        """Make the coordinators' topics, and wait until every partition of them has its
        coordinator."""
        self.find_coordinator()
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.group()])
        ids = DescribeTransactionsRequest([f"{self.prefix}-probe-{number}" for number in range(64)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.peer.ask(ApiKey.FIND_COORDINATOR, 4, request)
            answer: Any = self.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, ids)
            if all(state.error_code == 105 for state in answer.transaction_states):
                return
            time.sleep(0.1)

    def level(self, value: Any, name: str = "") -> Any:
        if name == "records" and value is not None:
            return [self._batch(batch) for batch in read_batches(value)]
        if name == "topics" and isinstance(value, list):
            value = [self._offsets_partition(each) for each in value]
        if name == "results_by_partition":
            return sorted((super(TransactionTalk, self).level(each) for each in value), key=repr)
        if name in _PRODUCER_IDS and isinstance(value, int) and 0 <= value < LONG:
            return self._number(f"producer {value}")
        if name in _TIMES and isinstance(value, int):
            return value if value < 0 else "set"
        return super().level(value, name)

    def _batch(self, batch: RecordBatch) -> Any:
        """What matters of a batch in a fetched log."""
        kind = read_marker(batch) if batch.is_control else "data"
        producer = self._number(f"producer {batch.producer_id}")
        return (
            batch.base_offset,
            kind,
            producer,
            batch.producer_epoch,
            batch.base_sequence,
            batch.is_transactional,
        )

    @staticmethod
    def _offsets_partition(topic: Any) -> Any:
        """How many partitions the offsets topic has is not what these conversations are about."""
        if getattr(topic, "topic", "") == "__consumer_offsets":
            return replace(topic, partitions=[0 for _ in topic.partitions])
        return topic

    def settled(self, label: str, api: ApiKey, version: int, request: Any) -> Any:
        """Ask again while the transaction before is being completed; write the last answer down."""
        deadline = time.monotonic() + 60
        while True:
            answer: Any = self.peer.ask(api, version, request)
            if not NOT_NOW & _codes(answer) or time.monotonic() > deadline:
                self.lines.append((label, self.level(answer)))
                return answer
            time.sleep(0.02)

    def completed(self, name: str = "t") -> None:
        """Wait until no transaction of the id is being completed."""
        request = DescribeTransactionsRequest([self.group(name)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer: Any = self.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                return
            time.sleep(0.02)

    def timed_out(self, name: str) -> None:
        """Wait until the coordinator has aborted the id's transaction."""
        request = DescribeTransactionsRequest([self.group(name)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer: Any = self.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
            if answer.transaction_states[0].transaction_state == "CompleteAbort":
                return
            time.sleep(0.05)
        raise AssertionError("the transaction is not aborted")

    def describe(self, label: str, name: str = "t") -> Any:
        return self.ask(
            label, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([self.group(name)])
        )

    def init(
        self, label: str, version: int = 5, name: str | None = "t", producer: Producer = (-1, -1), **more: Any
    ) -> Producer:
        transactional_id = None if name is None else self.group(name) if name else ""
        request = InitProducerIdRequest(transactional_id, more.get("timeout_ms", TIMEOUT_MS), *producer)
        answer = self.settled(label, ApiKey.INIT_PRODUCER_ID, version, request)
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        label: str,
        version: int,
        producer: Producer,
        topics: dict[str, list[int]],
        name: str = "t",
        **more: Any,
    ) -> Any:
        named = [AddPartitionsToTxnTopic(f"{self.prefix}-{topic}", parts) for topic, parts in topics.items()]
        transactional_id = self.group(name) if name else ""
        if version < 4:
            request = AddPartitionsToTxnRequest(transactional_id, *producer, named)
        else:
            verify_only = more.get("verify_only", False)
            transaction = AddPartitionsToTxnTransaction(transactional_id, *producer, verify_only, named)
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        return self.settled(label, ApiKey.ADD_PARTITIONS_TO_TXN, version, request)

    def add_offsets(self, label: str, version: int, producer: Producer, group: str, name: str = "t") -> Any:
        request = AddOffsetsToTxnRequest(self.group(name), *producer, self.group(group))
        return self.settled(label, ApiKey.ADD_OFFSETS_TO_TXN, version, request)

    def end(self, label: str, version: int, producer: Producer, commit: bool, name: str = "t") -> Producer:
        """EndTxn, and wait until it is complete; the producer's next id and epoch."""
        request = EndTxnRequest(self.group(name) if name else "", *producer, commit)
        answer = self.settled(label, ApiKey.END_TXN, version, request)
        self.completed(name)
        if version < 5 or answer.error_code:
            return producer
        return answer.producer_id, answer.producer_epoch

    def commit_offsets(
        self, label: str, version: int, producer: Producer, group: str, topic: str, offset: int, **more: Any
    ) -> Any:
        parts = [
            TxnOffsetCommitRequestPartition(index, offset, committed_metadata=more.get("metadata", "m"))
            for index in more.get("partitions", (0,))
        ]
        request = TxnOffsetCommitRequest(
            self.group(more.get("name", "t")),
            self.group(group) if group else "",
            *producer,
            topics=[TxnOffsetCommitRequestTopic(f"{self.prefix}-{topic}", parts)],
        )
        if version >= 3:
            request.generation_id = more.get("generation", -1)
            request.member_id = more.get("member", "")
        return self.settled(label, ApiKey.TXN_OFFSET_COMMIT, version, request)

    def produce(
        self,
        label: str,
        version: int,
        producer: Producer,
        topic: str,
        partition: int,
        sequence: int,
        **more: Any,
    ) -> Any:
        """One transactional record."""
        batch = build_batch(
            [(more.get("key", b"k"), more.get("value", b"v"), (), 1_700_000_000_000)],
            producer=(*producer, sequence),
            transactional=more.get("transactional", True),
        )
        if more.get("damaged"):
            batch = batch[:-1] + bytes([batch[-1] ^ 1])
        name = more.get("name", "t")
        full = f"{self.prefix}-{topic}"
        request = ProduceRequest(
            self.group(name) if name else None,
            -1,
            10_000,
            [TopicProduceData(full, self.peer.topic_id(full), [PartitionProduceData(partition, batch)])],
        )
        return self.settled(label, ApiKey.PRODUCE, version, request)


def _codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    from tests.compat.raw import Case, plain

    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                if name.endswith("error_code") and isinstance(item, int):
                    found.add(item)
                else:
                    look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    look(plain(answer, Case("", ApiKey.END_TXN, (0, 0), lambda peer, version: answer, levelled=frozenset())))
    return found
