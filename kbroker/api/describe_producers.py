"""DescribeProducers (key 61), v0: idempotent and transactional producers that a partition remembers (KIP-664)."""

from kbroker.api.context import RequestContext
from kbroker.api.later import by_topic, of_worker
from kbroker.api.row import Api
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.topic_name import validate
from kbroker.ipc import layout
from kbroker.ipc.messages import DescribeProducers
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kbroker.protocol.schema import Struct

API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> Struct | Deferred:
    """The producers of each partition."""
    parts = [
        (topic.name, [_describe(ctx.broker, topic.name, index) for index in topic.partition_indexes])
        for topic in request.topics
    ]
    return by_topic(parts, TopicResponse, lambda topics: DescribeProducersResponse(topics=topics))


def refuse(request: DescribeProducersRequest, error: KafkaError, version: int) -> DescribeProducersResponse:
    """The request failed as a whole: every partition carries the error."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, name: str, index: int) -> PartitionResponse | Deferred:
    try:
        validate(name)
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if broker.slots.state(partition.slot) == layout.STATE_OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    except KafkaError as error:
        return _failed(broker, name, index, error)

    return of_worker(
        broker,
        partition,
        DescribeProducers(partition.slot),
        lambda known: PartitionResponse(index, active_producers=[ProducerState(*each) for each in known]),
        lambda error: _failed(broker, name, index, error),
    )


def _failed(broker: Broker, name: str, index: int, error: KafkaError) -> PartitionResponse:
    known = broker.catalogue.get(name) is not None
    return PartitionResponse(index, error.code, None if known else error.message)
