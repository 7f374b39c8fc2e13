"""Produce requests with more partitions than the kernels' tables have rows: each partition is
refused by name.

Runs in: network. One host has fewer partitions (kbroker.max.partitions), so such a request names
partitions that do not exist, or repeats some. Apache Kafka answers each partition by itself; so
does this module, in slices.
"""

from collections.abc import Callable

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
from kbroker.protocol.slices import paced, release

TOO_MANY = "The request has more partitions than this broker accepts in one request."

May = Callable[[str], bool]
"""Whether the client may write to a topic."""


def refuse(
    topics: Topics, may: May, header: RequestHeader, frame: bytes | memoryview, body: int
) -> Frame | None:
    """The framed answer; None for acks=0, where an error ends the connection. Raises ProtocolError,
    TooLarge."""
    request, _ = decode(ProduceRequest, header.api_version, frame, body)
    named = (topic for topic in request.topic_data if topic.partition_data)
    response = ProduceResponse([_refused(topics, may, header, topic) for topic in named])
    release(request)
    if request.acks == 0:
        return None
    answer = encode_long_response(header.api_key, header.api_version, header.correlation_id, response)
    release(response)
    return answer


def _refused(
    topics: Topics, may: May, header: RequestHeader, topic: TopicProduceData
) -> TopicProduceResponse:
    by_id = header.api_version >= ProduceVersion.TOPIC_IDS
    known = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None and by_id:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    count = 0 if known is None else len(known.partitions)
    name = topic.name if known is None else known.name
    if (known is not None or not by_id) and not may(name):
        count, unknown = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = TopicProduceResponse(topic.name, topic.topic_id)
    for part in paced(topic.partition_data):
        there = 0 <= part.index < count
        code = ErrorCode.INVALID_REQUEST if there else unknown
        text = TOO_MANY if there else None
        refused.partition_responses.append(
            PartitionProduceResponse(part.index, code, -1, -1, -1, error_message=text)
        )
    return refused
