"""Guards of the APIs about configs: the needed operation depends on the kind of resource."""

from types import ModuleType
from typing import Any

from kbroker.api.authorization.guard import Guard, Serve, changed, extend, may, narrowed
from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.config import acls
from kbroker.control.metadata.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import SlicedList, paced

NEEDED = {
    BROKER: acls.CLUSTER,
    BROKER_LOGGER: acls.CLUSTER,
    CLIENT_METRICS: acls.CLUSTER,
    TOPIC: acls.TOPIC,
    GROUP: acls.GROUP,
}
CODES = {
    acls.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    acls.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    acls.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}


def _code(ctx: RequestContext, operation: int, kind: int, name: str) -> ErrorCode:
    """NONE if the client is allowed; the handler refuses an unknown kind."""
    needed = NEEDED.get(kind)
    if needed is None:
        return ErrorCode.NONE
    resource = acls.CLUSTER_NAME if needed == acls.CLUSTER else name
    return ErrorCode.NONE if may(ctx, operation, needed, resource) else CODES[needed]


def on_configs(module: ModuleType, operation: int, answered: str) -> Guard:
    """Guard of an API whose request is a list of resources, and its answer one of results."""

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        codes = [_code(ctx, operation, each.resource_type, each.resource_name) for each in request.resources]
        if not any(paced(codes)):
            return serve(ctx, request)
        if any(each.resource_type not in NEEDED for each in request.resources) and answered == "results":
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        allowed = SlicedList()
        refused: list[Any] = []
        for each, code in zip(request.resources, codes, strict=True):
            if not code:
                allowed.append(each)
            else:
                narrowed_request = changed(request, "resources", [each])
                refused += getattr(module.refuse(narrowed_request, KafkaError(code), ctx.version), answered)

        def finish(response: Any) -> Any:
            extend(getattr(response, answered), refused)
            return response

        rest = changed(request, "resources", allowed)
        return then(serve(narrowed(ctx), rest), finish)

    return guard
