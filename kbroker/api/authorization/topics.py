"""Guards of the APIs about topics that also hide topics."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from msgspec.structs import replace

from kbroker.api import create_topics, describe_topic_partitions, metadata
from kbroker.api.authorization.guard import (
    Serve,
    changed,
    divided,
    extend,
    may,
    may_all,
    narrowed,
    operations,
    visible,
)
from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.api.operations import ON_CLUSTER, ON_TOPIC
from kbroker.config import acls
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_name import CLUSTER_METADATA, INTERNAL
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kbroker.protocol.schema import ZERO_UUID
from kbroker.protocol.slices import Names, Repeated, SlicedList, distinct, emptied, freed, paced

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _sees(ctx: RequestContext, name: str) -> bool:
    return may(ctx, acls.DESCRIBE, acls.TOPIC, name)


# --- Metadata -------------------------------------------------------------------------------------------


def guard_metadata(ctx: RequestContext, request: MetadataRequest, serve: Serve) -> Any:
    """Topics that the client may not see are left out if all topics are requested, and refused if
    they are named."""
    metadata.check(request, ctx.version)
    if metadata.is_all(request, ctx.version):
        hidden = {name for name in paced(list(ctx.broker.catalogue.topics)) if not _sees(ctx, name)}
        if hidden or _asks_operations(request):
            response: MetadataResponse = serve(narrowed(ctx), request)
            response.topics = visible(response.topics, lambda topic: topic.name not in hidden)
            return cached_answers(ctx, _with_operations(ctx, request, response))
        return serve(ctx, request)
    refused = _hidden_topics(ctx, request)
    refused += _not_created(ctx, request)
    if not refused and not _asks_operations(request):
        return serve(ctx, request)
    left = _not_refused(request.topics or [], refused)

    def finish(response: MetadataResponse) -> Any:
        answer = _with_operations(ctx, request, response)
        if not refused and not isinstance(found, Deferred):
            return cached_answers(ctx, answer)
        extend(answer.topics, refused)
        return answer

    rest = changed(request, "topics", left)
    if metadata.is_all(rest, ctx.version):  # version 0 means all by an empty list
        response = metadata.respond(narrowed(ctx), changed(request, "topics", None))
        response.topics = []
        found: Any = response
    else:
        found = serve(narrowed(ctx), rest)
    return then(found, finish)


def _not_refused(
    topics: list[MetadataRequestTopic], refused: list[MetadataResponseTopic]
) -> list[MetadataRequestTopic]:
    """The topics of a request that the client may see. Names beside ids are dropped: they were not
    checked, and without the refused ids the rest might be a request by name."""
    if any(topic.topic_id != ZERO_UUID for topic in topics):
        gone = Names(chain((ZERO_UUID,), (topic.topic_id for topic in refused)))
        left = SlicedList(topic for topic in topics if topic.topic_id not in gone)
    else:
        gone = Names(topic.name for topic in refused)
        left = SlicedList(topic for topic in topics if topic.name not in gone)
    gone.clear()
    return left


def _asks_operations(request: MetadataRequest) -> bool:
    return request.include_topic_authorized_operations or request.include_cluster_authorized_operations


def _hidden_topics(ctx: RequestContext, request: MetadataRequest) -> list[MetadataResponseTopic]:
    topics = request.topics or []
    if any(topic.topic_id != ZERO_UUID for topic in topics):  # an id is no secret, a name is
        ids = distinct(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID)
        known = (ctx.broker.catalogue.by_id(topic_id) for topic_id in ids)
        return [
            MetadataResponseTopic(REFUSED, None, topic.topic_id)
            for topic in known
            if topic is not None and not _sees(ctx, topic.name)
        ]
    names = distinct(topic.name for topic in topics if topic.name is not None)
    return [MetadataResponseTopic(REFUSED, name) for name in names if not _sees(ctx, name)]


def _not_created(ctx: RequestContext, request: MetadataRequest) -> list[MetadataResponseTopic]:
    """Missing topics that the client may see but not create."""
    if may_all(ctx, acls.CREATE):
        return []
    missing = metadata.missing(ctx, request)
    refused = [
        MetadataResponseTopic(REFUSED, name, is_internal=name in INTERNAL)
        for name in paced(missing)
        if _sees(ctx, name) and not may(ctx, acls.CREATE, acls.TOPIC, name)
    ]
    emptied(missing)
    return refused


def _with_operations(
    ctx: RequestContext, request: MetadataRequest, response: MetadataResponse
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        without = response.topics
        response.topics = [
            replace(
                topic, topic_authorized_operations=operations(ctx, acls.TOPIC, topic.name or "", ON_TOPIC)
            )
            for topic in paced(without)
        ]
        freed(without)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(ctx)
    return response


def cluster_operations(ctx: RequestContext) -> int:
    """The client's authorized operations on the cluster; none when it may not describe the
    cluster."""
    if not may_all(ctx, acls.DESCRIBE):
        return 0
    return operations(ctx, acls.CLUSTER, acls.CLUSTER_NAME, ON_CLUSTER)


# --- DescribeTopicPartitions ----------------------------------------------------------------------------


def guard_describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, serve: Serve
) -> Any:
    """As for Metadata, but always with the authorized operations."""
    first = request.cursor.topic_name if request.cursor else ""
    refused = []
    if request.topics:
        names = distinct(topic.name for topic in request.topics if topic.name >= first)
        refused = [
            DescribeTopicPartitionsResponseTopic(REFUSED, name) for name in names if not _sees(ctx, name)
        ]
    response = describe_topic_partitions.page(ctx, request, lambda name: _sees(ctx, name))
    response.topics = [
        replace(topic, topic_authorized_operations=operations(ctx, acls.TOPIC, topic.name or "", ON_TOPIC))
        for topic in paced(response.topics)
    ]
    response.topics += refused
    return cached_answers(ctx, response)


# --- CreateTopics, DeleteTopics ---------------------------------------------------------------------------


def guard_create_topics(ctx: RequestContext, request: CreateTopicsRequest, serve: Serve) -> Any:
    """CREATE on the cluster or on the topic; its configs are returned if the client may describe
    them. The handler refuses names that no client may create."""
    everything = may_all(ctx, acls.CREATE)
    repeated = Repeated(topic.name for topic in request.topics)

    def fits(topic: CreatableTopic) -> bool:
        if everything or topic.name == CLUSTER_METADATA or topic.name in repeated:
            return True
        return may(ctx, acls.CREATE, acls.TOPIC, topic.name)

    allowed, refused = divided(request.topics, fits)
    repeated.clear()
    error = KafkaError(REFUSED, "Authorization failed.")
    refusal = create_topics.refuse(changed(request, "topics", refused), error, ctx.version)

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in paced(response.topics):
            if not result.error_code and not may(ctx, acls.DESCRIBE_CONFIGS, acls.TOPIC, result.name):
                result.topic_config_error_code = REFUSED
                result.num_partitions = result.replication_factor = -1
                result.configs = []
        extend(response.topics, refusal.topics)
        return response

    return then(serve(ctx, changed(request, "topics", allowed)), finish)


def guard_delete_topics(ctx: RequestContext, request: DeleteTopicsRequest, serve: Serve) -> Any:
    """DELETE on the cluster or on the topic, by name DESCRIBE as well, which may be denied; a
    request by id does not get the name of a hidden topic."""
    if may_all(ctx, acls.DELETE):
        return serve(ctx, request)
    kept, refused = SlicedList(), []
    error = KafkaError(REFUSED)
    for topic in paced(_named_once(request)):
        found = None if topic.name is not None else ctx.broker.catalogue.by_id(topic.topic_id)
        name = topic.name if found is None else found.name
        badly_named = name is None or (topic.name is not None and topic.topic_id != ZERO_UUID)
        if badly_named or _may_see_deletion(ctx, name or "", by_name=found is None):
            kept.append(topic)
        else:
            shown_name = topic.name if found is None else found.name if _sees(ctx, found.name) else None
            refused.append(DeletableTopicResult(shown_name, topic.topic_id, error.code, error.message))
    if not refused:
        return serve(ctx, request)

    def finish(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        extend(response.responses, refused)
        freed(kept)
        return response

    rest = replace(request, topics=kept, topic_names=[])
    return then(serve(ctx, rest), finish)


def _may_see_deletion(ctx: RequestContext, name: str, by_name: bool) -> bool:
    """Whether the client may delete a topic, or see that it does not exist."""
    if by_name and not _sees(ctx, name):
        return False
    return name not in ctx.broker.catalogue.topics or may(ctx, acls.DELETE, acls.TOPIC, name)


def _named_once(request: DeleteTopicsRequest) -> Iterator[DeleteTopicState]:
    """Topics by name and by id; duplicates stay, because they have their own error."""
    for name in request.topic_names:
        yield DeleteTopicState(name)
    yield from request.topics
