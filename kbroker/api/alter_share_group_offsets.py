"""AlterShareGroupOffsets (key 91), v0: set the start offsets of an empty share group (KIP-932)."""

from collections.abc import Iterable, Mapping

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
    group_id = request.group_id
    async with empty_share_group(groups, group_id, create=True):
        failures = await _restarted(ctx, starts(ctx.broker, group_id, request.topics))
        answers = [_answer(ctx, group_id, topic, failures) for topic in paced(listed(ctx.broker, request))]
        requested = altered(answers)
        await groups.run(group_id, lambda _: groups.shard.share_partitions(group_id, requested))
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


def starts(
    broker: Broker, group_id: str, topics: Iterable[AlterShareGroupOffsetsRequestTopic]
) -> dict[ShareKey, int]:
    """The start offset of each existing partition. It is written once, however often the request
    names the partition: the last offset counts."""
    found = {}
    for spec in paced(topics):
        topic = broker.catalogue.get(spec.topic_name)
        if topic is None:
            continue
        for part in paced(spec.partitions):
            if broker.catalogue.partition(spec.topic_name, part.partition_index) is not None:
                found[ShareKey(group_id, topic.topic_id, part.partition_index)] = part.start_offset
    return found


async def _restarted(ctx: RequestContext, offsets: Mapping[ShareKey, int]) -> dict[ShareKey, KafkaError]:
    """Set the offsets. Returns the failures."""
    failures = {}
    for key, offset in offsets.items():
        try:
            await ctx.services.shares.partitions.restart_at(key, offset)
        except KafkaError as error:
            failures[key] = error
    return failures


def _answer(
    ctx: RequestContext,
    group_id: str,
    spec: AlterShareGroupOffsetsRequestTopic,
    failures: Mapping[ShareKey, KafkaError],
) -> AlterShareGroupOffsetsResponseTopic:
    topic = ctx.broker.catalogue.get(spec.topic_name)
    topic_id = bytes(16) if topic is None else topic.topic_id
    parts = []
    for part in paced(spec.partitions):
        code, message = ErrorCode.NONE, None
        if ctx.broker.catalogue.partition(spec.topic_name, part.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = NO_PARTITION
        elif (error := failures.get(ShareKey(group_id, topic_id, part.partition_index))) is not None:
            code, message = error.code, error.message
        parts.append(AlterShareGroupOffsetsResponsePartition(part.partition_index, code, message))
    return AlterShareGroupOffsetsResponseTopic(spec.topic_name, topic_id, parts)
