"""The sender of a group request, as the coordinator stores it."""

from functools import partial

from kbroker.api.authorization.guard import may
from kbroker.api.context import RequestContext
from kbroker.config import acls
from kbroker.control.groups.caller import Caller


def caller(ctx: RequestContext) -> Caller:
    """The caller, with a leading slash before the host: Java prints addresses like this, and so
    Kafka returns them."""
    host = f"/{ctx.client.client_host}"
    if ctx.broker.authorizer is None:
        return Caller(ctx.client_id, host, ctx.version)
    return Caller(ctx.client_id, host, ctx.version, partial(may, ctx, acls.DESCRIBE, acls.TOPIC))
