"""DescribeProducers (key 61), v0: idempotent and transactional producers that a partition remembers
(KIP-664)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer
from kbroker.api.row import Api
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_name import validate
from kbroker.ipc.layout import SlotState
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


@dataclass(slots=True)
class Asked:
    """A request to one IO worker. parts: of the answer, in the order of the slots, to be filled by
    its reply."""

    slots: list[int] = field(default_factory=list)
    parts: list[PartitionResponse] = field(default_factory=list)


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> Answer:
    """The producers of each partition: one message to each IO worker that has any of them."""
    broker = ctx.broker
    asked: dict[int, Asked] = {}
    response = DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_part(broker, topic.name, index, asked) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
    if not asked:
        return response
    answer = Deferred()
    left = len(asked)

    def answered(parts: list[PartitionResponse], reply: Any) -> None:
        nonlocal left
        _fill(parts, reply)
        left -= 1
        if not left:
            answer.complete(response)

    for worker, each in asked.items():
        broker.links.ask_worker(worker, DescribeProducers(tuple(each.slots)), partial(answered, each.parts))
    return answer


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


def _part(broker: Broker, name: str, index: int, asked: dict[int, Asked]) -> PartitionResponse:
    """A partition of the answer: an error, or empty and among what is asked."""
    try:
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            validate(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if broker.slots.state(partition.slot) == SlotState.OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    except KafkaError as error:
        known = broker.catalogue.get(name) is not None
        return PartitionResponse(index, error.code, None if known else error.message)
    part = PartitionResponse(index)
    each = asked.get(partition.worker)
    if each is None:
        each = asked[partition.worker] = Asked()
    each.slots.append(partition.slot)
    each.parts.append(part)
    return part


def _fill(parts: list[PartitionResponse], reply: Any) -> None:
    """reply: what DescribeProducers is replied with, or the KafkaError that all of it is."""
    if isinstance(reply, KafkaError):
        reply = [reply.code] * len(parts)
    for part, found in zip(parts, reply, strict=True):
        if isinstance(found, int):
            part.error_code = found
        else:
            part.active_producers = [ProducerState(*each) for each in found]
