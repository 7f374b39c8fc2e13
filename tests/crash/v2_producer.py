"""A producer of transactions v2 (KIP-890) that asks again as Apache Kafka's Java client does, and
knows what it committed.

Transactions v2 have no client in Python: the partition joins the transaction with the Produce
request, the offsets with TxnOffsetCommit, and every EndTxn answers the epoch to go on with. A
request whose connection broke is sent again unchanged; any error that is not retriable is a
finding.
"""

import random
import threading
import time
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.crash.load import PARTITIONS

PATIENCE_S = 90
"""Longer than any death may last."""
TIMEOUT_MS = 600_000
"""No transaction of this client may time out."""
PAUSE_S = 0.02
GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
RETRIABLE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class V2Producer:
    """Transactions in a thread until it is stopped.

    committed: partition -> the values of committed transactions, in order. offset: what the last
    commit says the group has read. failed: the first answer that is no repetition's business.
    """

    def __init__(self, port: int, topic: str, name: str) -> None:
        self.committed: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.group = f"{name}-group"
        self.offset = -1
        self.ended = 0
        self.repeated = 0
        self.failed: str = ""
        self._peer, self._topic, self._name = SocketPeer(port, name), topic, name
        self._chances = random.Random(name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def stop(self) -> None:
        """The last transaction has ended when this returns."""
        self._stop.set()
        self._thread.join(PATIENCE_S * 2)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            for key_type, key in ((GROUP, self.group), (TRANSACTION, self._name)):
                self._ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key, key_type))
            begun: Any = self._ask(
                ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(self._name, TIMEOUT_MS, -1, -1)
            )
            producer = begun.producer_id, begun.producer_epoch
            while not self._stop.is_set():
                producer = self._transaction(producer)
            # refused until the markers of the last transaction are in the logs
            self._ask(ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(self._name, TIMEOUT_MS, -1, -1))
        except AssertionError as error:
            self.failed = f"{self._name}, transaction {self.ended}: {error}"

    def _transaction(self, producer: tuple[int, int]) -> tuple[int, int]:
        """One transaction over some partitions and the group; the producer of the next."""
        value = str(self.ended).encode()
        partitions = self._chances.sample(range(PARTITIONS), self._chances.randint(1, PARTITIONS))
        for partition in partitions:
            self._produce(producer, partition, value)
        self._commit_offset(producer, self.ended)
        commit = self._chances.random() < 0.8
        ended: Any = self._ask(ApiKey.END_TXN, 5, EndTxnRequest(self._name, *producer, commit))
        if commit:
            self.offset = self.ended
            for partition in partitions:
                self.committed[partition].append(value)
        self.ended += 1
        return ended.producer_id, ended.producer_epoch

    def _produce(self, producer: tuple[int, int], partition: int, value: bytes) -> None:
        batch = build_batch(
            [(None, value, (), int(time.time() * 1000))], producer=(*producer, 0), transactional=True
        )
        topics = [TopicProduceData(self._topic, partition_data=[PartitionProduceData(partition, batch)])]
        self._ask(ApiKey.PRODUCE, 12, ProduceRequest(self._name, -1, 10_000, topics))

    def _commit_offset(self, producer: tuple[int, int], offset: int) -> None:
        topics = [TxnOffsetCommitRequestTopic(self._topic, [TxnOffsetCommitRequestPartition(0, offset)])]
        request = TxnOffsetCommitRequest(self._name, self.group, *producer, topics=topics)
        self._ask(ApiKey.TXN_OFFSET_COMMIT, 5, request)

    def _ask(self, api: ApiKey, version: int, request: Struct) -> Struct:
        """The answer without an error, after as many repetitions as it takes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self._peer.ask(api, version, request)
            except OSError:
                answer = None
            codes = set() if answer is None else error_codes(answer)
            if answer is not None and not codes:
                return answer
            assert codes <= RETRIABLE, f"{api.name}: {[ErrorCode(code).name for code in codes]}"
            assert time.monotonic() < deadline, f"{api.name}: no answer in {PATIENCE_S} s"
            self.repeated += 1
            time.sleep(PAUSE_S)


def error_codes(answer: Any) -> set[int]:
    """The errors in an answer of the four APIs above."""
    codes = {getattr(answer, "error_code", 0)}
    for topic in getattr(answer, "responses", []):
        codes |= {each.error_code for each in topic.partition_responses}
    for topic in getattr(answer, "topics", []):
        codes |= {each.error_code for each in topic.partitions}
    return codes - {0}
