"""DescribeShareGroupOffsets (key 90), v0-1: start offsets and lag of share groups (KIP-932). v1 lag
(KIP-1226)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.row import Api
from kbroker.control.groups.service import each
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.slices import Table, paced

API = Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1)
UNKNOWN = -1


def handle(
    ctx: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """One answer per group; a group that is missing or of another type has no offsets."""
    check_protocol(ctx.broker, "share")
    groups = ctx.services.groups
    requested = Table((group.group_id, group) for group in request.groups)

    def describe(group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
        found = groups.read(group_id).table.groups.get(group_id)
        group = found if isinstance(found, ShareGroup) else ShareGroup(group_id)
        return DescribeShareGroupOffsetsResponseGroup(group_id, _topics(ctx, group, requested[group_id]))

    described = each((group_id for group_id, _ in requested.items()), describe, _failed)
    requested.clear()
    return DescribeShareGroupOffsetsResponse(groups=described)


def refuse(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, version: int
) -> DescribeShareGroupOffsetsResponse:
    """The request failed as a whole: every group carries the error."""
    return DescribeShareGroupOffsetsResponse(
        groups=[_failed(group.group_id, error) for group in request.groups]
    )


def _failed(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id, [], error.code, error.own_words)


def _topics(
    ctx: RequestContext, group: ShareGroup, requested: DescribeShareGroupOffsetsRequestGroup
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    if requested.topics is None:
        return [
            _describe(ctx, group, topic, sorted(shared.partitions))
            for topic_id, shared in list(group.shared.items())
            if (topic := ctx.broker.catalogue.by_id(topic_id)) is not None
        ]
    answers = []
    for spec in requested.topics:
        topic = ctx.broker.catalogue.get(spec.topic_name)
        if topic is None:
            answers.append(
                DescribeShareGroupOffsetsResponseTopic(
                    spec.topic_name,
                    partitions=[
                        DescribeShareGroupOffsetsResponsePartition(index, UNKNOWN)
                        for index in spec.partitions
                    ],
                )
            )
        else:
            answers.append(_describe(ctx, group, topic, spec.partitions))
    return answers


def _describe(
    ctx: RequestContext, group: ShareGroup, topic: Topic, indexes: list[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    service = ctx.services.shares
    parts = []
    for index in paced(indexes):
        key = ShareKey(group.group_id, topic.topic_id, index)
        part = DescribeShareGroupOffsetsResponsePartition(index)
        try:
            part.start_offset = service.partitions.start_offset(key)
            lag = service.partitions.lag(key)
            part.lag = UNKNOWN if lag is None else lag
        except KafkaError as error:
            part.start_offset, part.error_code, part.error_message = 0, error.code, error.own_words
        parts.append(part)
    return DescribeShareGroupOffsetsResponseTopic(topic.name, topic.topic_id, parts)
