"""ShareAcknowledge (key 79), v1-2: accept, release, reject or keep acquired records (KIP-932).

v2 renewed locks (KIP-1222).
"""

from collections.abc import Iterable
from typing import Final

from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.api.share_request import check_sender, code_and_text
from kbroker.control.broker import Broker
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.service import Fetched
from kbroker.control.share.sessions import TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kbroker.protocol.slices import emptied, paced

UNTRIED: Final = (
    ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)  # fmt: skip
"""Errors of partitions whose batches are not even tried."""
API = Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2)


@running
async def handle(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """A code per partition, when its acknowledgements are written."""
    check_protocol(ctx.broker, "share")
    group_id, member_id = check_sender(request.group_id, request.member_id)
    service = ctx.services.shares
    batches = {
        (topic.topic_id, part.partition_index): [
            AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in part.acknowledgement_batches
        ]
        for topic in request.topics
        for part in topic.partitions
        if part.acknowledgement_batches
    }
    try:
        done = await service.acknowledge(
            group_id, member_id, request.share_session_epoch, batches, request.is_renew_ack
        )
    finally:
        for each in paced(batches.values()):
            emptied(each)
    add_empty(ctx.broker, request, done)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), part in paced(done.items()):
        topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id)).partitions.append(
            PartitionData(index, *code_and_text(part.acknowledge_error))
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=service.partitions.limits(group_id).lock_ms,
        responses=list(topics.values()),
    )


def add_empty(broker: Broker, request: ShareAcknowledgeRequest, done: dict[TopicPartition, Fetched]) -> None:
    """Add the results of partitions without batches: Kafka lists those that exist only beside
    partitions that it acknowledges."""
    acknowledges = any(
        code_and_text(each.acknowledge_error)[0] not in UNTRIED for each in paced(done.values())
    )
    for topic in paced(request.topics):
        known = broker.catalogue.by_id(topic.topic_id)
        for part in paced(topic.partitions):
            place = topic.topic_id, part.partition_index
            if place in done:
                continue
            if known is None:
                done[place] = Fetched(acknowledge_error=KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
            elif broker.catalogue.partition(known.name, part.partition_index) is None:
                done[place] = Fetched(acknowledge_error=KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif acknowledges:
                done[place] = Fetched()


def topic_response(topic_id: bytes, indexes: Iterable[int], code: ErrorCode) -> ShareAcknowledgeTopicResponse:
    """The results of a topic that fails as a whole."""
    return ShareAcknowledgeTopicResponse(topic_id, [PartitionData(index, code) for index in indexes])


def refuse(request: ShareAcknowledgeRequest, error: KafkaError, version: int) -> ShareAcknowledgeResponse:
    """The request failed as a whole."""
    return ShareAcknowledgeResponse(error_code=error.code)
