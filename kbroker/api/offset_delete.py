"""OffsetDelete (key 47), v0: delete offsets of topics that a group does not read (KIP-496)."""

from functools import partial

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, then
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kbroker.protocol.slices import emptied, is_sliced, paced, release

API = Api(ApiKey.OFFSET_DELETE, 0, 0)


def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> Answer:
    """Delete the offsets; returns a code per partition. Missing partitions are refused here."""
    catalogue = ctx.broker.catalogue
    failed: dict[str, OffsetDeleteResponseTopic] = {}
    known = []
    for topic in request.topics:
        there = []
        for part in topic.partitions:
            if catalogue.partition(topic.name, part.partition_index) is not None:
                there.append(part)
                continue
            failed_topic = failed.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name))
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failed_topic.partitions.append(OffsetDeleteResponsePartition(part.partition_index, code))
        if there:
            known.append(OffsetDeleteRequestTopic(topic.name, there))
    deletion = OffsetDeleteRequest(request.group_id, known)
    try:
        service = ctx.services.groups
        answer = service.ask(request.group_id, lambda _: service.shard.delete_offsets(deletion))
    except KafkaError as error:
        raise _forgotten(failed, error) from None
    return then(answer, partial(_merged, failed), partial(_forgotten, failed))


def _merged(
    failed: dict[str, OffsetDeleteResponseTopic], answer: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    response = _response(failed)
    for topic_answer in paced(answer.topics):
        own_or_none = failed.get(topic_answer.name)
        if own_or_none is None:
            response.topics.append(topic_answer)
        else:
            own_or_none.partitions += topic_answer.partitions
    emptied(failed)
    return response


def _response(failed: dict[str, OffsetDeleteResponseTopic]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(topics=list(paced(failed.values())))


def _forgotten(failed: dict[str, OffsetDeleteResponseTopic], error: KafkaError) -> KafkaError:
    """The error of the whole request; the results of its partitions are freed in slices."""
    unused = _response(failed)
    emptied(failed)
    if is_sliced():
        release(unused)
    return error


def refuse(request: OffsetDeleteRequest, error: KafkaError, version: int) -> OffsetDeleteResponse:
    """The request failed as a whole."""
    return OffsetDeleteResponse(error_code=error.code)
