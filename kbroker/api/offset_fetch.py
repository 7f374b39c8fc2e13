"""OffsetFetch (key 9), v1-10: committed offsets of groups.

v2 all partitions (null topics) and a code for the group; v3 throttle time; v5 leader epoch; v6
flexible; v7 require_stable (KIP-447); v8 many groups (KIP-709); v9 member id and epoch (KIP-848);
v10 topic ids (v0 is gone).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.control.groups.offset_fetch import failed_group, failed_partition
from kbroker.ipc.cached_answers import CachedAnswer, word_of
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kbroker.protocol.slices import Table, freed, paced

API = Api(ApiKey.OFFSET_FETCH, 1, 10, fast_paths=(REPEATED,))
MANY_GROUPS_FROM = 8
GROUP_CODE_FROM = 2
TOPIC_IDS_FROM = 10


def handle(ctx: RequestContext, request: OffsetFetchRequest) -> CachedAnswer | OffsetFetchResponse:
    """One answer per group; below v8 the request is about one group. The answer is cacheable if it
    only depends on offsets."""
    groups = groups_of(request, ctx.version)
    response = _respond(ctx, request, groups)
    free_topics(groups, ctx.version)
    if len(groups) != 1 or groups[0].member_id or groups[0].member_epoch >= 0:
        return response
    if any(part.committed_offset < 0 for part in _partitions(response)):
        return response
    return cached_answers(ctx, response, word_of(groups[0].group_id))


def _partitions(
    response: OffsetFetchResponse,
) -> Iterator[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]:
    """The partitions in the answer about one group."""
    topics: list[Any] = response.topics
    if response.groups:
        topics = response.groups[0].topics
    for topic in paced(topics):
        yield from paced(topic.partitions)


def _respond(
    ctx: RequestContext, request: OffsetFetchRequest, groups: list[OffsetFetchRequestGroup]
) -> OffsetFetchResponse:

    def answer(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        try:
            return fetch(ctx, group, request.require_stable)
        except KafkaError as error:
            return failed(group, error.code, ctx.version)

    return response_of(each_group(groups, answer), ctx.version)


def each_group(
    groups: list[OffsetFetchRequestGroup],
    answer: Callable[[OffsetFetchRequestGroup], OffsetFetchResponseGroup],
) -> list[OffsetFetchResponseGroup]:
    """The answers in the order of the groups. A group that is named again, for all offsets, gets
    the same answer: it is made once, however long it is."""
    known: Table[tuple[str, str | None, int], OffsetFetchResponseGroup] = Table()
    answers = [
        known.setdefault((group.group_id, group.member_id, group.member_epoch), partial(answer, group))
        if group.topics is None
        else answer(group)
        for group in paced(groups)
    ]
    known.clear()
    return answers


def refuse(request: OffsetFetchRequest, error: KafkaError, version: int) -> OffsetFetchResponse:
    """The request failed as a whole."""
    groups = groups_of(request, version)
    response = response_of([failed(group, error.code, version) for group in paced(groups)], version)
    free_topics(groups, version)
    return response


def response_of(answers: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    """The response of a version from these answers of groups."""
    if version >= MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=answers)
    return _single(answers[0], version)


def groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups of a request of any version."""
    if version >= MANY_GROUPS_FROM:
        return request.groups
    topics = request.topics
    return [
        OffsetFetchRequestGroup(
            request.group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
                for topic in paced(topics)
            ],
        )
    ]


def free_topics(groups: list[OffsetFetchRequestGroup], version: int) -> None:
    """Free, in slices, the topics that `groups_of` has made."""
    if version < MANY_GROUPS_FROM and groups[0].topics is not None:
        freed(groups[0].topics)


def failed(group: OffsetFetchRequestGroup, code: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    """The answer about a failed group: its code, and before v2, which lacks that field, the code of
    each partition."""
    answer = failed_group(group.group_id, code)
    if version < GROUP_CODE_FROM:
        answer.topics = [
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [failed_partition(index, code) for index in paced(topic.partition_indexes)],
            )
            for topic in paced(group.topics or ())
        ]
    return answer


def _single(answer: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    response = OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        part.partition_index,
                        part.committed_offset,
                        part.committed_leader_epoch,
                        part.metadata,
                        part.error_code,
                    )
                    for part in paced(topic.partitions)
                ],
            )
            for topic in paced(answer.topics)
        ],
    )
    freed(answer.topics)
    return response


def fetch(
    ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The answer of one group. Raises KafkaError if the group fails as a whole."""
    service = ctx.services.groups
    by_id = ctx.version >= TOPIC_IDS_FROM
    unknown = _name_topics(ctx, group) if by_id else []
    answer = service.read(group.group_id).fetch_offsets(group, require_stable)
    if by_id and group.topics is None:
        _add_ids(ctx, answer)
    answer.topics += unknown
    return answer


def _name_topics(ctx: RequestContext, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Set the names of the requested topics; returns the answers for unknown ids."""
    if group.topics is None:
        return []
    unknown = []
    known = []
    for topic in paced(group.topics):
        found = ctx.broker.catalogue.by_id(topic.topic_id)
        if found is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            parts = [failed_partition(index, code) for index in paced(topic.partition_indexes)]
            unknown.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, parts))
        else:
            topic.name = found.name
            known.append(topic)
    requested, group.topics = group.topics, known
    freed(requested)
    return unknown


def _add_ids(ctx: RequestContext, answer: OffsetFetchResponseGroup) -> None:
    """Add ids to topics; deleted topics have none and are left out."""
    named = []
    for topic in paced(answer.topics):
        found = ctx.broker.catalogue.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
            named.append(topic)
    answer.topics = named
