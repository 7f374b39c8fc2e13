"""AlterShareGroupOffsets (key 91), v0: set the start offsets of an empty share group (KIP-932)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.api.share_offsets import NO_PARTITION, empty_share_group
from kbroker.control.broker import Broker
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0)


@running
async def handle(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """A code per partition. The group starts to share partitions that are new to it."""
    check_protocol(ctx.broker, "share")
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    groups = ctx.services.groups
    empty_share_group(groups, request.group_id, create=True)
    answers = [await _topic(ctx, request.group_id, topic) for topic in listed(ctx.broker, request)]
    requested = altered(answers)
    await groups.run(request.group_id, lambda _: groups.shard.share_partitions(request.group_id, requested))
    return AlterShareGroupOffsetsResponse(responses=answers)


def refuse(
    request: AlterShareGroupOffsetsRequest, error: KafkaError, version: int
) -> AlterShareGroupOffsetsResponse:
    """The request failed as a whole."""
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)


def listed(
    broker: Broker, request: AlterShareGroupOffsetsRequest
) -> list[AlterShareGroupOffsetsRequestTopic]:
    """The topics that the answer lists: not those that do not exist, if they come without
    partitions, which would carry the error."""
    return [topic for topic in request.topics if topic.partitions or broker.catalogue.get(topic.topic_name)]


def altered(answers: list[AlterShareGroupOffsetsResponseTopic]) -> dict[str, set[int]]:
    """The partitions whose offsets were set, by topic."""
    found: dict[str, set[int]] = {}
    for topic in paced(answers):
        for part in paced(topic.partitions):
            if part.error_code == ErrorCode.NONE:
                found.setdefault(topic.topic_name, set()).add(part.partition_index)
    return found


async def _topic(
    ctx: RequestContext, group_id: str, spec: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    service = ctx.services.shares
    topic = ctx.broker.catalogue.get(spec.topic_name)
    topic_id = bytes(16) if topic is None else topic.topic_id
    parts = []
    for part in spec.partitions:
        code, message = ErrorCode.NONE, None
        if ctx.broker.catalogue.partition(spec.topic_name, part.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = NO_PARTITION
        else:
            try:
                key = ShareKey(group_id, topic_id, part.partition_index)
                await service.partitions.restart_at(key, part.start_offset)
            except KafkaError as error:
                code, message = error.code, error.message
        parts.append(AlterShareGroupOffsetsResponsePartition(part.partition_index, code, message))
    return AlterShareGroupOffsetsResponseTopic(spec.topic_name, topic_id, parts)
