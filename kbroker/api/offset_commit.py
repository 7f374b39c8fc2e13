"""OffsetCommit (key 8), v2-10: store offsets of a group.

v2-4 its own retention; v3 throttle time; v6 leader epoch; v7 group instance id (KIP-345); v8
flexible; v9 member epochs and GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848); v10 topic ids (v0-1
were removed in Kafka 4.0).
"""

from typing import Any

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, running
from kbroker.api.row import COMMIT_CACHE, Api
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups.offset_commit import failed_topic, refused
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kbroker.protocol.slices import SlicedList, Table, freed, paced

API = Api(ApiKey.OFFSET_COMMIT, 2, 10, fast_paths=(COMMIT_CACHE,))
TOPIC_IDS_FROM = 10


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> Answer:
    """Commit offsets; returns a code per partition. Missing topics and partitions are refused
    here."""
    if all(_known(ctx, topic) for topic in request.topics) and request.topics:
        return _ask(ctx, request)
    return _handle_partly_known(ctx, request)


def _ask(ctx: RequestContext, request: OffsetCommitRequest) -> Answer:
    service = ctx.services.groups
    answer: Answer = service.ask_concurrently(
        request.group_id, lambda now_ms: service.shard.commit_offsets(request, ctx.version, now_ms)
    )
    if type(answer) is Deferred:  # not a Running: no other operation of the group is pending
        service.commit_cache.cache_commit(ctx.client, request)
    return answer


def _known(ctx: RequestContext, topic: OffsetCommitRequestTopic) -> bool:
    """Whether topic and partitions exist; sets name and id of an existing topic."""
    catalogue = ctx.broker.catalogue
    found = catalogue.by_id(topic.topic_id) if ctx.version >= TOPIC_IDS_FROM else catalogue.get(topic.name)
    if found is None:
        return False
    topic.name, topic.topic_id = found.name, found.topic_id
    count = len(found.partitions)
    return all(0 <= part.partition_index < count for part in topic.partitions) and bool(topic.partitions)


@running
async def _handle_partly_known(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    response = OffsetCommitResponse()
    known = _known_topics(ctx, request, response)
    if not known:
        return response
    known_only = OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.retention_time_ms,
        request.group_instance_id,
        known,
    )
    service = ctx.services.groups
    try:
        answer: OffsetCommitResponse = await service.run(
            request.group_id, lambda now_ms: service.shard.commit_offsets(known_only, ctx.version, now_ms)
        )
    except KafkaError as error:
        answer = refuse(known_only, error, ctx.version)
    _merge(response, answer, ctx.version >= TOPIC_IDS_FROM)
    freed(known)
    return response


def refuse(request: OffsetCommitRequest, error: KafkaError, version: int) -> OffsetCommitResponse:
    """The request failed as a whole: every partition carries the error."""
    return refused(request, error.code)


def _known_topics(
    ctx: RequestContext, request: OffsetCommitRequest, response: OffsetCommitResponse
) -> list[OffsetCommitRequestTopic]:
    """The offsets to commit, with topic name and id; the others are answered in `response`."""
    catalogue = ctx.broker.catalogue
    by_id = ctx.version >= TOPIC_IDS_FROM
    known = SlicedList()
    for topic in request.topics:
        found = catalogue.by_id(topic.topic_id) if by_id else catalogue.get(topic.name)
        if found is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(failed_topic(topic, topic.partitions, code))
            continue
        count = len(found.partitions)
        existing = SlicedList(part for part in topic.partitions if 0 <= part.partition_index < count)
        if len(existing) < len(topic.partitions):
            missing = [part for part in paced(topic.partitions) if not 0 <= part.partition_index < count]
            response.topics.append(failed_topic(topic, paced(missing), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if existing:
            known.append(OffsetCommitRequestTopic(found.name, found.topic_id, existing))
    return known


def _merge(response: OffsetCommitResponse, answer: OffsetCommitResponse, by_id: bool) -> None:
    """Add the group's answer to what was answered before it, topic by topic."""
    seen: Table[bytes | str, Any] = Table(
        (topic.topic_id if by_id else topic.name, topic) for topic in response.topics
    )
    for topic in paced(answer.topics):
        merged = seen.get(topic.topic_id if by_id else topic.name)
        if merged is None:
            response.topics.append(topic)
        else:
            merged.partitions += topic.partitions
    seen.clear()
