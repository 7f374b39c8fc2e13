"""Guards of ShareFetch and ShareAcknowledge: READ on the group and on each topic."""

from types import ModuleType
from typing import Any

from kbroker.api.authorization.guard import Guard, Serve, changed, divided, may, require
from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.config import acls
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.slices import paced

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def on_shared(module: ModuleType) -> Guard:
    """Guard of one of the two; topics are named by id, and the handler refuses an unknown id."""

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        require(ctx, acls.READ, acls.GROUP, request.group_id or "")
        allowed, refused = divided(request.topics, lambda topic: may_read(ctx, topic.topic_id))
        if not refused:
            return serve(ctx, request)
        answers = [
            module.topic_response(
                topic.topic_id, [part.partition_index for part in topic.partitions], REFUSED
            )
            for topic in paced(refused)
        ]

        def finish(response: Any) -> Any:
            if not response.error_code:
                response.responses += answers
            return response

        return then(serve(ctx, changed(request, "topics", allowed)), finish)

    return guard


def may_read(ctx: RequestContext, topic_id: bytes) -> bool:
    """Whether the client may read a topic; true for an unknown topic, which the handler refuses."""
    found = ctx.broker.catalogue.by_id(topic_id)
    return found is None or may(ctx, acls.READ, acls.TOPIC, found.name)
