"""Valid requests about transactions, each field of which is made odd."""

from collections.abc import Mapping

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kbroker.protocol.schema import Struct
from tests.compat.odd_group_scenes import consumer_joined, synced
from tests.compat.odd_world import OTHER, TOPIC, Scene, World

MEMBER = "A" * 22
TIMEOUT_MS = 60_000
Look = tuple[K, int, Struct]
Producer = tuple[int, int]


def described(world: World, name: str) -> Look:
    return K.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([name])


def begun(world: World, name: str) -> Producer:
    """A producer without a transaction."""
    answer = world.done(K.INIT_PRODUCER_ID, 5, InitProducerIdRequest(name, TIMEOUT_MS))
    return answer.producer_id, answer.producer_epoch


def ongoing(world: World, name: str) -> Producer:
    """A producer with a transaction that has a partition."""
    producer = begun(world, name)
    request = AddPartitionsToTxnRequest(name, *producer, [AddPartitionsToTxnTopic(OTHER, [0])])
    world.done(K.ADD_PARTITIONS_TO_TXN, 3, request)
    return producer


def init(world: World, name: str, version: int) -> Struct:
    request = InitProducerIdRequest(name, TIMEOUT_MS, *begun(world, name))
    if version < 3:
        request.producer_id = request.producer_epoch = -1
    return request


def init_during(world: World, name: str, version: int) -> Struct:
    return InitProducerIdRequest(name, TIMEOUT_MS, *ongoing(world, name))


def init_new(world: World, name: str, version: int) -> Struct:
    return InitProducerIdRequest(name, TIMEOUT_MS)


def add(world: World, name: str, version: int) -> Struct:
    producer = begun(world, name)
    topics = [AddPartitionsToTxnTopic(OTHER, [0, 1])]
    if version < 4:
        return AddPartitionsToTxnRequest(name, *producer, topics)
    return AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(name, *producer, topics=topics)]
    )


def verify(world: World, name: str, version: int) -> Struct:
    """Of one partition that is in the transaction, and one that is not."""
    topics = [AddPartitionsToTxnTopic(OTHER, [0, 1])]
    transaction = AddPartitionsToTxnTransaction(name, *ongoing(world, name), True, topics)
    return AddPartitionsToTxnRequest(transactions=[transaction])


def add_offsets(world: World, name: str, version: int) -> Struct:
    return AddOffsetsToTxnRequest(name, *begun(world, name), f"{name}-g")


def end(world: World, name: str, version: int) -> Struct:
    return EndTxnRequest(name, *ongoing(world, name), True)


def end_of_nothing(world: World, name: str, version: int) -> Struct:
    return EndTxnRequest(name, *begun(world, name), True)


def end_again(world: World, name: str, version: int) -> Struct:
    producer = ongoing(world, name)
    world.done(K.END_TXN, 4 if version < 5 else 5, EndTxnRequest(name, *producer, True))
    return EndTxnRequest(name, *producer, True)


def offsets(world: World, name: str, version: int) -> TxnOffsetCommitRequest:
    producer, group = begun(world, name), f"{name}-g"
    if version < 5:
        world.done(K.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(name, *producer, group))
    part = TxnOffsetCommitRequestPartition(0, 5, 0, "note")
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [part])]
    return TxnOffsetCommitRequest(name, group, *producer, topics=topics)


def classic_offsets(world: World, name: str, version: int) -> Struct:
    request = offsets(world, name, version)
    request.member_id, request.generation_id = synced(world, request.group_id)
    request.group_instance_id = "i"
    return request


def consumer_offsets(world: World, name: str, version: int) -> Struct:
    request = offsets(world, name, version)
    request.member_id, request.generation_id = MEMBER, consumer_joined(world, request.group_id)
    return request


def markers(world: World, name: str, version: int) -> Struct:
    producer = ongoing(world, name)
    marker = WritableTxnMarker(*producer, False, [WritableTxnMarkerTopic(OTHER, [0])], 0)
    return WriteTxnMarkersRequest([marker])


def markers_of_one_producer(world: World, name: str, version: int) -> Struct:
    """One for a partition, one for none, and one for the first partition and others. Apache Kafka
    does not answer if the last one is that for none."""
    producer = ongoing(world, name)
    every = [[WritableTxnMarkerTopic(OTHER, [0])], [], [WritableTxnMarkerTopic(OTHER, [0, 1, 9])]]
    return WriteTxnMarkersRequest([WritableTxnMarker(*producer, False, topics, 0) for topics in every])


def describe(world: World, name: str, version: int) -> Struct:
    ongoing(world, name)
    return DescribeTransactionsRequest([name])


TRANSACTION_SCENES: Mapping[str, Scene] = {
    "list-transactions": Scene(
        K.LIST_TRANSACTIONS, (0, 2), lambda *_: ListTransactionsRequest(["Dead"], [1 << 40], 1 << 50, "none")
    ),
    "init": Scene(K.INIT_PRODUCER_ID, (0, 5), init, look=described),
    "init-during": Scene(K.INIT_PRODUCER_ID, (3, 5), init_during),
    "init-new": Scene(K.INIT_PRODUCER_ID, (0, 5), init_new, look=described),
    "add-partitions": Scene(K.ADD_PARTITIONS_TO_TXN, (0, 5), add, look=described),
    "verify-partitions": Scene(K.ADD_PARTITIONS_TO_TXN, (4, 5), verify, look=described),
    "add-offsets": Scene(K.ADD_OFFSETS_TO_TXN, (0, 4), add_offsets, look=described),
    "end": Scene(K.END_TXN, (0, 5), end),
    "end-of-nothing": Scene(K.END_TXN, (0, 5), end_of_nothing, look=described),
    "end-again": Scene(K.END_TXN, (0, 5), end_again),
    "txn-offsets": Scene(K.TXN_OFFSET_COMMIT, (0, 5), offsets, look=described),
    "classic-txn-offsets": Scene(K.TXN_OFFSET_COMMIT, (3, 5), classic_offsets, look=described),
    "consumer-txn-offsets": Scene(K.TXN_OFFSET_COMMIT, (3, 5), consumer_offsets, look=described),
    "markers": Scene(K.WRITE_TXN_MARKERS, (1, 2), markers),
    "markers-of-one-producer": Scene(K.WRITE_TXN_MARKERS, (1, 2), markers_of_one_producer),
    "describe-transactions": Scene(K.DESCRIBE_TRANSACTIONS, (0, 0), describe),
    "describe-producers": Scene(
        K.DESCRIBE_PRODUCERS, (0, 0), lambda *_: DescribeProducersRequest([TopicRequest(TOPIC, [0, 1])])
    ),
}
