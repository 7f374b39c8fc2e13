"""DescribeTopicPartitions (key 75), v0: topics and partitions page by page (KIP-966).

An empty list means all topics. Topics are sorted; the cursor of an answer is the start of the next
request.
"""

from collections.abc import Callable

from kbroker.api.cached_answers import cached_answers, cached_by_topic
from kbroker.api.context import RequestContext
from kbroker.api.operations import ON_TOPIC
from kbroker.api.replicas import shown_replicas
from kbroker.api.row import BY_TOPIC, REPEATED, Api
from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.control.metadata.topic_name import INTERNAL, absent_topic_error
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kbroker.protocol.slices import distinct, emptying, in_order, paced

API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, fast_paths=(REPEATED, BY_TOPIC))


def handle(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> CachedAnswer | DescribeTopicPartitionsResponse:
    """One page."""
    response = page(ctx, request, lambda _: True)
    if not request.topics or request.cursor or response.next_cursor:
        return cached_answers(ctx, response)
    return cached_by_topic(ctx, response, lambda topic: topic.name.encode(), _room(ctx.broker, request))


def _room(broker: Broker, request: DescribeTopicPartitionsRequest) -> int:
    """Maximum number of partitions in an answer."""
    limit = broker.config.get_int("max.request.partition.size.limit")
    return max(1, min(limit, request.response_partition_limit))


def page(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, is_visible: Callable[[str], bool]
) -> DescribeTopicPartitionsResponse:
    """One page of the visible topics."""
    every = ctx.broker.catalogue.topics
    first = request.cursor.topic_name if request.cursor else ""
    names = distinct(topic.name for topic in request.topics) if request.topics else list(every)
    remaining = in_order(name for name in paced(names) if name >= first)
    with emptying(remaining):
        _check_cursor(request, remaining)
        return _page(ctx, request, is_visible, remaining)


def _page(
    ctx: RequestContext,
    request: DescribeTopicPartitionsRequest,
    is_visible: Callable[[str], bool],
    remaining: list[str],
) -> DescribeTopicPartitionsResponse:
    """The page that begins with the first of the remaining topics."""
    broker, cursor = ctx.broker, request.cursor
    everything = not request.topics
    first = cursor.topic_name if cursor else ""
    room = _room(broker, request)
    response = DescribeTopicPartitionsResponse()
    for name in paced(remaining):
        if not is_visible(name):
            continue
        if not name and cursor is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka: it looks for the cursor's partition
        if room == 0:
            response.next_cursor = ResponseCursor(name, 0)
            break
        topic = broker.catalogue.get(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(name))
            continue
        start = cursor.partition_index if cursor and name == first else 0
        shown = topic.partitions[start : start + room]
        response.topics.append(_known(broker, topic, shown))
        if start + len(shown) < len(topic.partitions):
            response.next_cursor = ResponseCursor(name, start + len(shown))
            break
        room -= len(shown)
    return response


def refuse(
    request: DescribeTopicPartitionsRequest, error: KafkaError, version: int
) -> DescribeTopicPartitionsResponse:
    """The request failed as a whole: every topic carries the error."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics]
    )


def _check_cursor(request: DescribeTopicPartitionsRequest, remaining: list[str]) -> None:
    cursor = request.cursor
    if cursor is None:
        return
    if request.topics and not any(name == cursor.topic_name for name in paced(remaining)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "DescribeTopicPartitionsRequest cursor partition must be valid"
        )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        absent_topic_error(name), name, is_internal=name in INTERNAL, topic_authorized_operations=ON_TOPIC
    )


def _known(broker: Broker, topic: Topic, shown: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.internal,
        [_partition(broker, partition) for partition in paced(shown)],
        ON_TOPIC,
    )


def _partition(broker: Broker, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    shown = shown_replicas(broker, partition)
    return DescribeTopicPartitionsResponsePartition(
        shown.error_code,
        partition.index,
        shown.leader,
        partition.leader_epoch,
        shown.replicas,
        shown.in_sync,
        [],
        [],
        shown.offline,
    )
