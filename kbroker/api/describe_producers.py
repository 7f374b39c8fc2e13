"""DescribeProducers (key 61), v0: idempotent and transactional producers that a partition remembers (KIP-664)."""

import asyncio

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
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

API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)


async def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """The producers of each partition."""
    waits = [
        _describe(ctx, topic.name, index) for topic in request.topics for index in topic.partition_indexes
    ]
    answers = iter(await asyncio.gather(*waits))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [next(answers) for _ in topic.partition_indexes])
            for topic in request.topics
        ]
    )


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


async def _describe(ctx: RequestContext, name: str, index: int) -> PartitionResponse:
    broker = ctx.broker
    try:
        validate(name)
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if broker.slots.state(partition.slot) == layout.STATE_OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        producers = await broker.links.call_worker(partition.worker, DescribeProducers(partition.slot))
    except KafkaError as error:
        known = broker.catalogue.get(name) is not None
        return PartitionResponse(index, error.code, None if known else error.message)
    return PartitionResponse(
        index,
        active_producers=[
            ProducerState(
                producer.producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.current_txn_start_offset,
            )
            for producer in producers
        ],
    )
