"""Answers that network processes may cache: those without an error that only depend on the request
and on control's state, or on the logs that they were read from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kbroker.api.context import RequestContext
from kbroker.api.error_counts import error_codes
from kbroker.ipc.cached_answers import NO_LOGS, AnswerSplit, CachedAnswer, Part
from kbroker.ipc.layout import AnswerVersion
from kbroker.ipc.long_messages import REPEATABLE_BYTES
from kbroker.protocol.frame import encode_response, framed_response
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.pieces import encode_in_pieces
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import has_yielded, paced

Answer = TypeVar("Answer", bound=Struct)
TopicAnswer = TypeVar("TopicAnswer", bound=MetadataResponse | DescribeTopicPartitionsResponse)
UNLIMITED: Final = 1 << 62
MAX_LOGS: Final = 256
"""Maximum of logs of a cached answer: each request checks all of them."""


def cached_answers(
    ctx: RequestContext,
    response: Answer,
    word: int = AnswerVersion.TOPICS,
    logs: Mapping[int, int] = NO_LOGS,
) -> CachedAnswer | Answer:
    """The encoded answer, if it is cacheable: it is the same for all clients of a listener until
    topics, settings or the word's state change. An answer with an error is not cacheable, because
    the client repeats the request until the state changes.

    word: version word of the group or the transactions that it describes. logs: Slot.SEQUENCE of
    the logs that it was read from, by slot, from before they were read.
    """
    count = _codes_if_cacheable(ctx, response)
    if count is None or len(logs) > MAX_LOGS:
        return response
    client = ctx.client
    frame = encode_response(client.api_key, client.api_version, client.correlation_id, response)
    if _is_outdated(ctx, word, bool(logs)):
        return response
    return ctx.broker.cached_answers.answer(frame, client.body, count, word, logs=logs)


def cached_by_topic(
    ctx: RequestContext, response: TopicAnswer, key: Callable[[Any], bytes], room: int = UNLIMITED
) -> CachedAnswer | TopicAnswer:
    """As `cached_answers`; other requests with the same options are answered from the parts of this
    answer, one for each topic.

    key: a topic's name or id, as in requests. room: maximum number of partitions in such an answer.
    """
    count = _codes_if_cacheable(ctx, response)
    if count is None:
        return response
    client = ctx.client
    topics: Sequence[Any] = response.topics
    pieces = encode_in_pieces(response, "topics", client.api_version)
    parts = [
        Part(key(topic), len(content), sum(1 for _ in error_codes(topic)), len(topic.partitions))
        for topic, content in paced(zip(topics, pieces.elements, strict=True))
    ]
    body = b"".join((pieces.before, pieces.length, *pieces.elements, pieces.after))
    frame = framed_response(client.api_key, client.api_version, client.correlation_id, body)
    array = len(frame) - len(body) + len(pieces.before)
    others = count - sum(part.codes for part in parts)
    if _is_outdated(ctx):
        return response
    split = AnswerSplit(array, array + len(pieces.length), room, others, parts)
    return ctx.broker.cached_answers.answer(frame, client.body, count, split=split)


def _is_outdated(ctx: RequestContext, word: int = AnswerVersion.TOPICS, waited: bool = False) -> bool:
    """Whether the state may have changed since the answer was made, because other tasks ran.

    waited: for logs, since the request began."""
    if not waited and not has_yielded():
        return False
    return word != AnswerVersion.TOPICS or ctx.topics_version != ctx.broker.cached_answers.topics


def _codes_if_cacheable(ctx: RequestContext, response: Struct) -> int | None:
    """The number of error codes in an answer that is cacheable; else None."""
    if len(ctx.client.body) > REPEATABLE_BYTES:
        return None
    codes = list(error_codes(response))
    return None if any(codes) or ctx.narrowed else len(codes)
