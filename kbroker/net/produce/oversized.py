"""Produce requests with more partitions than the kernels' tables have rows: each partition is
refused by name, unless Apache Kafka refuses the request as a whole.

Runs in: network. One host has fewer partitions (kbroker.max.partitions), so such a request names
partitions that do not exist, or repeats some. Apache Kafka answers each partition by itself; so
does this module, in slices.
"""

from collections.abc import Callable
from typing import NamedTuple

from kbroker.net.produce.refusals import (
    SEVERAL_PRODUCERS,
    damage_text,
    producer_of_only_batch,
    transactional_producers,
)
from kbroker.net.rows import ProduceVersion
from kbroker.net.topics import Topics
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import RequestHeader, encode_long_response
from kbroker.protocol.long_frame import Frame
from kbroker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kbroker.protocol.slices import emptied, paced, release

TOO_MANY = "The request has more partitions than this broker accepts in one request."

May = Callable[[str], bool]
"""Whether the client may write to a topic, or use a transactional id."""


class RefusedTopic(NamedTuple):
    """A topic of the request. partitions: how many the client may write to. unknown: the error of
    the others."""

    topic: TopicProduceData
    partitions: int
    unknown: ErrorCode


class Refusal(NamedTuple):
    """The error of all partitions, whatever they are."""

    code: ErrorCode
    text: str | None = None


def refuse(
    topics: Topics, may: May, may_use_id: May, header: RequestHeader, frame: bytes | memoryview, body: int
) -> Frame | None:
    """The framed answer; None for acks=0, where an error ends the connection. Raises ProtocolError,
    TooLarge."""
    request, _ = decode(ProduceRequest, header.api_version, frame, body)
    whole, refused = _refusal_of_all(may_use_id, request), list[RefusedTopic]()
    named = [topic for topic in paced(request.topic_data) if topic.partition_data]
    if whole is None:
        refused = [_refused_topic(topics, may, header.api_version, topic) for topic in paced(named)]
        if len(_producers(refused, header.api_version)) > 1:
            whole = Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, SEVERAL_PRODUCERS)
    if whole is not None:
        refused = [RefusedTopic(topic, 0, ErrorCode.NONE) for topic in paced(named)]
    response = ProduceResponse([_refused(each, whole) for each in paced(refused)])
    emptied(refused)
    emptied(named)
    release(request)
    if request.acks == 0:
        return None
    answer = encode_long_response(header.api_key, header.api_version, header.correlation_id, response)
    release(response)
    return answer


def _refusal_of_all(may_use_id: May, request: ProduceRequest) -> Refusal | None:
    """Kafka's reasons not to serve a request at all, as `wire_kernel.scan` finds them."""
    if text := damage_text(request):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, text)
    name = request.transactional_id
    if transactional_producers(request) and (name is None or not may_use_id(name)):
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _refused_topic(topics: Topics, may: May, version: int, topic: TopicProduceData) -> RefusedTopic:
    by_id = version >= ProduceVersion.TOPIC_IDS
    known = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
    name = topic.name if known is None else known.name
    if (known is not None or not by_id) and not may(name):
        return RefusedTopic(topic, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if known is None:
        return RefusedTopic(
            topic, 0, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return RefusedTopic(topic, len(known.partitions), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _producers(refused: list[RefusedTopic], version: int) -> set[bytes]:
    """The transactional producers, as `admit_kernel.has_several_producers` counts them: a batch
    does not count whose partition is refused before."""
    found = set[bytes]()
    for topic in refused:
        for part in paced(topic.topic.partition_data if topic.partitions else ()):
            producer = producer_of_only_batch(part.records or b"", version)
            if producer is not None and 0 <= part.index < topic.partitions:
                found.add(producer)
    return found


def _refused(topic: RefusedTopic, whole: Refusal | None) -> TopicProduceResponse:
    refused = TopicProduceResponse(topic.topic.name, topic.topic.topic_id)
    too_many = Refusal(ErrorCode.INVALID_REQUEST, TOO_MANY)
    unknown = Refusal(topic.unknown)
    for part in paced(topic.topic.partition_data):
        code, text = whole or (too_many if 0 <= part.index < topic.partitions else unknown)
        refused.partition_responses.append(
            PartitionProduceResponse(part.index, code, -1, -1, -1, error_message=text)
        )
    return refused
