"""The sender of a group request as the coordinator keeps it."""

from kbroker.api.context import RequestContext
from kbroker.control.groups.caller import Caller


def caller(ctx: RequestContext) -> Caller:
    """Host with a leading slash, as Java prints an address and Kafka shows it."""
    return Caller(ctx.client_id, f"/{ctx.client.client_host}", ctx.version)
