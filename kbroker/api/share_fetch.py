"""ShareFetch (key 78), v1-2: acquire records of shared partitions, and acknowledge earlier ones
(KIP-932).

v2 strict record limit (KIP-1206) and renewed locks (KIP-1222); v0 was a preview and is not
supported.
"""

from collections.abc import Iterable, Mapping

from kbroker.api.authorization.share import may_read
from kbroker.api.context import RequestContext
from kbroker.api.group_protocol import check_protocol
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.api.share_request import check_sender, code_and_text
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.service import Fetched, FetchSpec
from kbroker.control.share.sessions import FINAL_EPOCH, TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_fetch import (
    AcquiredRecords,
    FetchTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kbroker.protocol.slices import emptied, paced

API = Api(ApiKey.SHARE_FETCH, 1, 2)
STRICT = 1
"""ShareAcquireMode: never more than max_records."""


@running
async def handle(ctx: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    """The acquired records, when there are some or the wait time is over."""
    check_protocol(ctx.broker, "share")
    group_id, member_id = check_sender(request.group_id, request.member_id)
    if request.is_renew_ack:
        _check_renewal(request)
    service = ctx.services.shares
    max_bytes = min(request.max_bytes, ctx.broker.config.get_int("fetch.max.bytes"))
    acknowledgements = _acknowledgements(request.topics)
    added = [] if request.share_session_epoch == FINAL_EPOCH else list(_partitions(request.topics))
    forgotten = [
        (topic.topic_id, index)
        for topic in paced(request.forgotten_topics_data)
        for index in paced(topic.partitions)
    ]
    spec = FetchSpec(
        group_id,
        member_id,
        request.share_session_epoch,
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        Spec(
            0 if request.is_renew_ack else request.max_records,
            request.batch_size,
            request.share_acquire_mode == STRICT,
        ),
        added,
        forgotten,
        acknowledgements,
        request.is_renew_ack,
        ctx.client.connection_id,
        lambda topic_id: may_read(ctx, topic_id),
    )
    try:
        fetched = await service.fetch(spec)
    finally:
        for batches in acknowledgements.values():
            emptied(batches)
        emptied(added)
        emptied(forgotten)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=service.partitions.limits(group_id).lock_ms,
        responses=_responses(fetched),
    )


def topic_response(topic_id: bytes, indexes: Iterable[int], code: ErrorCode) -> ShareFetchableTopicResponse:
    """The results of a topic that fails as a whole."""
    return ShareFetchableTopicResponse(topic_id, [PartitionData(index, code) for index in indexes])


def refuse(request: ShareFetchRequest, error: KafkaError, version: int) -> ShareFetchResponse:
    """The request failed as a whole."""
    return ShareFetchResponse(error_code=error.code)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raises INVALID_REQUEST if a request that renews locks also requests records."""
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _partitions(topics: Iterable[FetchTopic]) -> Iterable[TopicPartition]:
    return (
        (topic.topic_id, part.partition_index) for topic in paced(topics) for part in paced(topic.partitions)
    )


def _acknowledgements(topics: Iterable[FetchTopic]) -> dict[TopicPartition, list[AcknowledgedBatch]]:
    return {
        (topic.topic_id, part.partition_index): [
            AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in part.acknowledgement_batches
        ]
        for topic in paced(topics)
        for part in paced(topic.partitions)
        if part.acknowledgement_batches
    }


def _responses(fetched: Mapping[TopicPartition, Fetched]) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, index), part in paced(fetched.items()):
        topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id)).partitions.append(
            PartitionData(
                index,
                *code_and_text(part.error),
                *code_and_text(part.acknowledge_error),
                records=part.records,
                acquired_records=[AcquiredRecords(*each) for each in part.acquired],
            )
        )
    return list(topics.values())
