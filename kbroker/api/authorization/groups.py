"""Guards of the APIs about groups and their offsets."""

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from kbroker.api import (
    describe_groups,
    describe_share_group_offsets,
    offset_commit,
    offset_fetch,
)
from kbroker.api.authorization.guard import (
    Guard,
    Serve,
    changed,
    divided,
    extend,
    may,
    may_all,
    on_each,
    operations,
    require,
    serve_rest,
    visible,
)
from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.api.operations import ON_GROUP
from kbroker.config import acls
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kbroker.protocol.slices import emptying, freed, paced

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."
HIDDEN_TOPOLOGY = "The described group uses topics that the client is not authorized to describe."


def _may_topic(ctx: RequestContext, operation: int, name: str) -> bool:
    return may(ctx, operation, acls.TOPIC, name)


# --- offsets --------------------------------------------------------------------------------------------


def guard_offset_commit(ctx: RequestContext, request: OffsetCommitRequest, serve: Serve) -> Any:
    """READ on the group and on each topic."""
    require(ctx, acls.READ, acls.GROUP, request.group_id)

    def fits(topic: OffsetCommitRequestTopic) -> bool:
        name: str | None = topic.name
        if ctx.version >= offset_commit.TOPIC_IDS_FROM:
            found = ctx.broker.catalogue.by_id(topic.topic_id)
            name = None if found is None else found.name
        return name is None or _may_topic(ctx, acls.READ, name)

    parts = divided(request.topics, fits)
    return serve_rest(ctx, offset_commit, request, serve, ("topics", "topics"), parts, TOPIC_REFUSED)


def guard_offset_fetch(ctx: RequestContext, request: OffsetFetchRequest, serve: Serve) -> Any:
    """DESCRIBE on each group; topics that the client may not see are left out, or refused when it
    named them."""
    groups = offset_fetch.groups_of(request, ctx.version)
    sees_all = cache(partial(_sees_all, ctx))
    whole = all(
        may(ctx, acls.DESCRIBE, acls.GROUP, group.group_id)
        and (sees_all() if group.topics is None else _sees_named(ctx, group.topics))
        for group in paced(groups)
    )
    if whole:
        offset_fetch.free_topics(groups, ctx.version)
        return serve(ctx, request)
    answers = offset_fetch.each_group(groups, lambda group: _fetched(ctx, group, request.require_stable))
    response = offset_fetch.response_of(answers, ctx.version)
    offset_fetch.free_topics(groups, ctx.version)
    return response


def _sees_all(ctx: RequestContext) -> bool:
    return all(_may_topic(ctx, acls.DESCRIBE, name) for name in paced(list(ctx.broker.catalogue.topics)))


def _sees_named(ctx: RequestContext, topics: list[OffsetFetchRequestTopics]) -> bool:
    return all(
        name is None or _may_topic(ctx, acls.DESCRIBE, name)
        for name in (_name_of(ctx, topic.name, topic.topic_id) for topic in paced(topics))
    )


def _name_of(ctx: RequestContext, name: str, topic_id: bytes) -> str | None:
    if ctx.version < offset_fetch.TOPIC_IDS_FROM:
        return name
    found = ctx.broker.catalogue.by_id(topic_id)
    return None if found is None else found.name


def _fetched(
    ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    if not may(ctx, acls.DESCRIBE, acls.GROUP, group.group_id):
        return offset_fetch.failed(group, GROUP_REFUSED, ctx.version)
    if group.topics is None:
        answer = _offset_fetch_response(ctx, group, require_stable)
        answer.topics = visible(answer.topics, lambda topic: _may_topic(ctx, acls.DESCRIBE, topic.name))
        return answer

    def fits(topic: OffsetFetchRequestTopics) -> bool:
        name = _name_of(ctx, topic.name, topic.topic_id)
        return name is None or _may_topic(ctx, acls.DESCRIBE, name)

    allowed, refused = divided(group.topics, fits)
    answer = _offset_fetch_response(ctx, replace(group, topics=allowed), require_stable)
    if answer.error_code:
        return answer
    answer.topics += [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [
                OffsetFetchResponsePartitions(index, -1, -1, "", TOPIC_REFUSED)
                for index in paced(topic.partition_indexes)
            ],
        )
        for topic in paced(refused)
    ]
    return answer


def _offset_fetch_response(
    ctx: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    try:
        return offset_fetch.fetch(ctx, group, require_stable)
    except KafkaError as error:
        return offset_fetch.failed(group, error.code, ctx.version)


def guard_offset_delete(ctx: RequestContext, request: OffsetDeleteRequest, serve: Serve) -> Any:
    """DELETE on the group, READ on each topic."""
    require(ctx, acls.DELETE, acls.GROUP, request.group_id)
    allowed, hidden = divided(request.topics, lambda topic: _may_topic(ctx, acls.READ, topic.name))
    if not hidden:
        return serve(ctx, request)
    refused = [
        OffsetDeleteResponseTopic(
            topic.name,
            [OffsetDeleteResponsePartition(part.partition_index, TOPIC_REFUSED) for part in topic.partitions],
        )
        for topic in paced(hidden)
    ]

    def finish(response: Any) -> Any:
        if not response.error_code:
            extend(response.topics, refused)
        return response

    return then(serve(ctx, changed(request, "topics", allowed)), finish)


# --- groups ---------------------------------------------------------------------------------------------


def guard_list_groups(ctx: RequestContext, request: ListGroupsRequest, serve: Serve) -> Any:
    """All groups if the client may describe the cluster, else those that it may describe."""
    response: ListGroupsResponse = serve(ctx, request)
    if not may_all(ctx, acls.DESCRIBE):
        response.groups = visible(
            response.groups, lambda group: may(ctx, acls.DESCRIBE, acls.GROUP, group.group_id)
        )
    return response


def guard_describe_groups(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """DESCRIBE on each group; adds the client's authorized operations."""

    def described(inner: RequestContext, rest: Any) -> Any:
        response = serve(inner, rest)
        if request.include_authorized_operations:
            for group in paced(response.groups):
                if not group.error_code:
                    group.authorized_operations = operations(ctx, acls.GROUP, group.group_id, ON_GROUP)
        return response

    guard = on_each(describe_groups, acls.DESCRIBE, acls.GROUP, "groups", "groups", "")
    return guard(ctx, request, described)


def describing(module: Any) -> Guard:
    """Guard of a Describe API of modern groups: a group with a topic that the client may not see is
    refused."""
    each = on_each(module, acls.DESCRIBE, acls.GROUP, "group_ids", "groups", "")

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        def described(inner: RequestContext, rest: Any) -> Any:
            response = serve(inner, rest)
            for number, group in enumerate(paced(response.groups)):
                if group.error_code:
                    continue
                if any(not _may_topic(ctx, acls.DESCRIBE, name) for name in _topics_shown(group)):
                    response.groups[number] = _without_description(group)
                elif request.include_authorized_operations:
                    group.authorized_operations = operations(ctx, acls.GROUP, group.group_id, ON_GROUP)
            return response

        return each(ctx, request, described)

    return guard


def _without_description(group: Any) -> Any:
    """The refusal of a group: only its id, since its topology names the hidden topics, too."""
    freed(group.members)
    topology = getattr(group, "topology", None)
    if topology is not None:
        freed(topology.subtopologies or [])
    text = HIDDEN_TOPOLOGY if hasattr(group, "topology") else HIDDEN_TOPICS
    return type(group)(TOPIC_REFUSED, text, group_id=group.group_id)


def _topics_shown(group: Any) -> set[str]:
    """Topics that the description of a group names."""
    names: set[str] = set()
    topology = getattr(group, "topology", None)
    for subtopology in paced((topology.subtopologies or ()) if topology is not None else ()):
        names.update(subtopology.source_topics)
        names.update(subtopology.repartition_sink_topics)
        for kind in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            names.update(topic.name for topic in kind)
    for member in paced(group.members):
        for assignment in (getattr(member, "assignment", None), getattr(member, "target_assignment", None)):
            names.update(each.topic_name for each in getattr(assignment, "topic_partitions", ()))
    return names


def guard_heartbeat_with_topics(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """READ on the group, DESCRIBE on each topic that the member subscribes to by name."""
    require(ctx, acls.READ, acls.GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        require(ctx, acls.DESCRIBE, acls.TOPIC, name)
    return serve(ctx, request)


def guard_streams_heartbeat(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """READ on the group, DESCRIBE on each topic of the topology."""
    require(ctx, acls.READ, acls.GROUP, request.group_id)
    if request.topology is not None:
        for subtopology in request.topology.subtopologies:
            repartition = [topic.name for topic in subtopology.repartition_source_topics]
            changelogs = [topic.name for topic in subtopology.state_changelog_topics]
            for name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *repartition,
                *changelogs,
            ):
                require(ctx, acls.DESCRIBE, acls.TOPIC, name)
    return serve(ctx, request)


# --- offsets of share groups --------------------------------------------------------------------------------


def guard_describe_share_group_offsets(
    ctx: RequestContext, request: DescribeShareGroupOffsetsRequest, serve: Serve
) -> Any:
    """DESCRIBE on each group and each of its topics."""
    hidden: dict[str, list[DescribeShareGroupOffsetsRequestTopic]] = {}
    kept = []
    for group in request.groups:
        topics = group.topics
        if topics is not None and may(ctx, acls.DESCRIBE, acls.GROUP, group.group_id):
            fits, others = divided(topics, lambda topic: _may_topic(ctx, acls.DESCRIBE, topic.topic_name))
            hidden[group.group_id] = others
            kept.append(DescribeShareGroupOffsetsRequestGroup(group.group_id, fits))
        else:
            kept.append(group)

    def described(inner: RequestContext, rest: Any) -> Any:
        response: DescribeShareGroupOffsetsResponse = serve(inner, rest)
        for group in paced(response.groups):
            group.topics = visible(
                group.topics, lambda topic: _may_topic(ctx, acls.DESCRIBE, topic.topic_name)
            )
            if group.error_code:
                continue
            group.topics += [
                _refused_offsets(topic.topic_name, topic.partitions)
                for topic in paced(hidden.get(group.group_id, ()))
            ]
        return response

    module = describe_share_group_offsets
    guard = on_each(module, acls.DESCRIBE, acls.GROUP, "groups", "groups", "group_id")
    with emptying(kept, hidden):
        return guard(ctx, changed(request, "groups", kept), described)


def _refused_offsets(name: str, indexes: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = KafkaError(TOPIC_REFUSED)
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(index, -1, 0, -1, error.code, error.message)
        for index in paced(indexes)
    ]
    return DescribeShareGroupOffsetsResponseTopic(name, bytes(16), partitions)


def guard_alter_share_group_offsets(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest, serve: Serve
) -> Any:
    """READ on the group and on each topic."""
    require(ctx, acls.READ, acls.GROUP, request.group_id)
    allowed, hidden = divided(request.topics, lambda topic: _may_topic(ctx, acls.READ, topic.topic_name))
    if not hidden:
        return serve(ctx, request)
    error = KafkaError(TOPIC_REFUSED)
    refused = [
        AlterShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(part.partition_index, error.code, error.message)
                for part in topic.partitions
            ],
        )
        for topic in paced(hidden)
    ]
    return then(serve(ctx, changed(request, "topics", allowed)), lambda answer: _with(answer, refused))


def guard_delete_share_group_offsets(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest, serve: Serve
) -> Any:
    """DELETE on the group, READ on each topic."""
    require(ctx, acls.DELETE, acls.GROUP, request.group_id)
    allowed, hidden = divided(request.topics, lambda topic: _may_topic(ctx, acls.READ, topic.topic_name))
    if not hidden:
        return serve(ctx, request)
    error = KafkaError(TOPIC_REFUSED)
    refused = [
        DeleteShareGroupOffsetsResponseTopic(topic.topic_name, bytes(16), error.code, error.message)
        for topic in paced(hidden)
    ]
    return then(serve(ctx, changed(request, "topics", allowed)), lambda answer: _with(answer, refused))


def _with(answer: Any, refused: list[Any]) -> Any:
    if not answer.error_code:
        extend(answer.responses, refused)
    return answer
