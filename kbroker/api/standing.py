"""Answers that network processes may repeat: without an error, and a function of the request and what control knows."""

from typing import TypeVar

from kbroker.api.context import RequestContext
from kbroker.api.error_counts import error_codes
from kbroker.ipc.standing import StandingAnswer
from kbroker.ipc.standing_layout import WORD_TOPICS
from kbroker.protocol.frame import encode_response
from kbroker.protocol.schema import Struct

Answer = TypeVar("Answer", bound=Struct)


def standing(ctx: RequestContext, response: Answer, word: int = WORD_TOPICS) -> StandingAnswer | Answer:
    """The answer, encoded, if it may be repeated: it says the same to all clients of a listener until topics, settings
    or what the word stands for change. With an error it may not: the client will ask again for something to happen.

    word: of the group or the transactions that it tells of.
    """
    codes = list(error_codes(response))
    if any(codes):
        return response
    client = ctx.client
    frame = encode_response(client.api_key, client.api_version, client.correlation_id, response)
    return ctx.broker.standing.answer(frame, client.body, len(codes), word)
