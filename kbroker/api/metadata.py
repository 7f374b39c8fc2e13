"""Metadata (key 3), v0-13: brokers, topics and their partitions; creates missing topics on request.

v0 an empty list is all topics; v1 null is all and empty is none, controller id, rack; v2 cluster
id; v3 throttle time; v4 auto-creation may be declined; v5 offline replicas; v7 leader epoch; v8
authorized operations; v9 flexible; v10 topic ids in the answer (KIP-516); v11 no cluster
operations; v12 topics by id, null names; v13 top-level error (KIP-1102). A missing topic is created
after the answer, which has UNKNOWN_TOPIC_OR_PARTITION for it, as in Kafka: clients ask again, and a
client that has just deleted the topic, or checks whether it exists, gets a correct answer.
"""

from collections.abc import Iterable
from functools import partial

from kbroker.api.audit import topic_created
from kbroker.api.cached_answers import cached_answers, cached_by_topic
from kbroker.api.context import RequestContext
from kbroker.api.later import Answer
from kbroker.api.operations import NOT_REQUESTED, ON_CLUSTER, ON_TOPIC
from kbroker.api.replicas import shown_replicas
from kbroker.api.row import BY_TOPIC, REPEATED, Api
from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.control.metadata.topic_name import INTERNAL, absent_topic_error, is_valid
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kbroker.protocol.schema import ZERO_UUID
from kbroker.protocol.slices import distinct, paced

API = Api(ApiKey.METADATA, 0, 13, fast_paths=(REPEATED, BY_TOPIC))


def handle(ctx: RequestContext, request: MetadataRequest) -> Answer:
    """The present topics; missing ones are created if client and broker allow it."""
    check(request, ctx.version)
    if names := missing(ctx, request):
        created = partial(topic_created, ctx.services.audit, ctx.client)
        ctx.services.auto_creation.create(names, created)
        return respond(ctx, request)
    response = respond(ctx, request)
    if is_all(request, ctx.version):
        return cached_answers(ctx, response)
    by_id = any(topic.topic_id != ZERO_UUID for topic in request.topics or ())
    return cached_by_topic(ctx, response, lambda topic: topic.topic_id if by_id else topic.name.encode())


def refuse(request: MetadataRequest, error: KafkaError, version: int) -> MetadataResponse:
    """The request failed as a whole: every topic carries the error, in v13 also the response."""
    topics = [
        MetadataResponseTopic(error.code, topic.name or "", topic.topic_id) for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error.code)


def check(request: MetadataRequest, version: int) -> None:
    """Raises KafkaError for an invalid request."""
    topics = request.topics or ()
    by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
    for topic in topics:
        if topic.name is None and version >= 12 and not by_id:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka fails in the same way
        if topic.name is None and version < 12:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID and version < 12:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
            )


def is_all(request: MetadataRequest, version: int) -> bool:
    """Whether the request is for all topics."""
    return request.topics is None or (version == 0 and not request.topics)


def missing(ctx: RequestContext, request: MetadataRequest) -> list[str]:
    """Names of topics to create: missing ones, if client and broker allow it."""
    if is_all(request, ctx.version) or any(topic.topic_id != ZERO_UUID for topic in request.topics or ()):
        return []
    allowed = ctx.version < 4 or request.allow_auto_topic_creation
    if not allowed or not ctx.broker.config.get_bool("auto.create.topics.enable"):
        return []
    names = distinct(topic.name for topic in request.topics or () if topic.name)
    return [name for name in names if name not in ctx.broker.catalogue.topics and is_valid(name)]


def respond(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """The answer from the present state."""
    broker = ctx.broker
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_REQUESTED
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(*node, broker.rack) for node in ctx.nodes()],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=[
            _known(broker, topic, operations)
            for topic in paced(_requested_topics(broker, request, ctx.version))
        ],
    )
    response.topics += _unknown(broker, request, operations)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    return response


def _requested_topics(broker: Broker, request: MetadataRequest, version: int) -> list[Topic]:
    """Existing topics, each once. A request with any id is a request by id."""
    catalogue = broker.catalogue
    if is_all(request, version):
        return list(catalogue.topics.values())
    topics = request.topics or []
    if _is_by_id(topics):
        found = (catalogue.by_id(topic_id) for topic_id in _ids(topics))
    else:
        found = (catalogue.get(name) for name in distinct(topic.name for topic in topics))
    return [topic for topic in found if topic is not None]


def _is_by_id(topics: Iterable[MetadataRequestTopic]) -> bool:
    return any(topic.topic_id != ZERO_UUID for topic in topics)


def _ids(topics: Iterable[MetadataRequestTopic]) -> Iterable[bytes]:
    return distinct(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID)


def _unknown(broker: Broker, request: MetadataRequest, operations: int) -> list[MetadataResponseTopic]:
    topics = request.topics or []
    if _is_by_id(topics):
        return [
            MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            for topic_id in _ids(topics)
            if broker.catalogue.by_id(topic_id) is None
        ]
    answers = []
    for name in distinct(topic.name for topic in topics):
        if name is None or name in broker.catalogue.topics:
            continue
        code, internal = absent_topic_error(name), name in INTERNAL
        answers.append(
            MetadataResponseTopic(code, name, is_internal=internal, topic_authorized_operations=operations)
        )
    return answers


def _known(broker: Broker, topic: Topic, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.internal,
        [_partition(broker, partition) for partition in paced(topic.partitions)],
        operations,
    )


def _partition(broker: Broker, partition: Partition) -> MetadataResponsePartition:
    shown = shown_replicas(broker, partition)
    return MetadataResponsePartition(
        shown.error_code,
        partition.index,
        shown.leader,
        partition.leader_epoch,
        shown.replicas,
        shown.in_sync,
        shown.offline,
    )
