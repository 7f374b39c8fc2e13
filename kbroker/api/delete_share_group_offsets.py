"""DeleteShareGroupOffsets (key 92), v0: delete an empty share group's offsets of topics
(KIP-932)."""

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.api.share_offsets import NO_PARTITION, empty_share_group
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

API = Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0)


@running
async def handle(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """A code per topic; as in Kafka none if the group never shared a partition."""
    check_protocol(ctx.broker, "share")
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    groups = ctx.services.groups
    service = ctx.services.shares
    async with empty_share_group(groups, request.group_id) as group:
        answers = []
        gone: set[bytes] = set()
        for spec in request.topics if group.has_states else ():
            topic = ctx.broker.catalogue.get(spec.topic_name)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.append(
                    DeleteShareGroupOffsetsResponseTopic(spec.topic_name, bytes(16), code, NO_PARTITION)
                )
                continue
            if topic.topic_id not in group.shared:
                code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
                answers.append(DeleteShareGroupOffsetsResponseTopic(topic.name, bytes(16), code, text))
            else:
                for partition in topic.partitions if topic.topic_id not in gone else ():
                    await service.partitions.delete(
                        ShareKey(request.group_id, topic.topic_id, partition.index)
                    )
                gone.add(topic.topic_id)
                answers.append(DeleteShareGroupOffsetsResponseTopic(topic.name, topic.topic_id))
        await groups.run(request.group_id, lambda _: groups.shard.unshare_topics(request.group_id, gone))
    return DeleteShareGroupOffsetsResponse(responses=answers)


def refuse(
    request: DeleteShareGroupOffsetsRequest, error: KafkaError, version: int
) -> DeleteShareGroupOffsetsResponse:
    """The request failed as a whole."""
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
