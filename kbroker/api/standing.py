"""Answers that network processes may repeat: without an error, and a function of the request and what control knows."""

from typing import TypeVar

from kbroker.api.context import RequestContext
from kbroker.api.error_counts import error_codes
from kbroker.ipc.standing import StandingAnswer
from kbroker.protocol.frame import encode_response
from kbroker.protocol.schema import Struct

Answer = TypeVar("Answer", bound=Struct)


def standing(ctx: RequestContext, response: Answer, group_id: str | None = None) -> StandingAnswer | Answer:
    """The answer, encoded, if it may be repeated: it says the same to all clients of a listener until topics, settings
    or the group change. With an error it may not, because the client will ask again for something to happen.

    group_id: the group whose offsets it tells.
    """
    codes = list(error_codes(response))
    if any(codes):
        return response
    client = ctx.client
    frame = encode_response(client.api_key, client.api_version, client.correlation_id, response)
    return ctx.broker.standing.answer(frame, client.body, len(codes), group_id)
