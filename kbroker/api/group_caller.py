"""The sender of a group request as the coordinator keeps it."""

from functools import partial

from kbroker.api.authorization.guard import may
from kbroker.api.context import RequestContext
from kbroker.config import acls
from kbroker.control.groups.caller import Caller


def caller(ctx: RequestContext) -> Caller:
    """Host with a leading slash, as Java prints an address and Kafka shows it."""
    host = f"/{ctx.client.client_host}"
    if ctx.broker.authorizer is None:
        return Caller(ctx.client_id, host, ctx.version)
    return Caller(ctx.client_id, host, ctx.version, partial(may, ctx, acls.DESCRIBE, acls.TOPIC))
