"""A guard runs before an API's handler: it refuses requests or parts of them, and hides resources
that a client may not see."""

from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from msgspec import structs
from msgspec.structs import replace

from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.config import acls
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import SlicedList, emptied, freed, paced

T = TypeVar("T")
Serve = Callable[[RequestContext, Any], Any]
"""The API's handler."""
Guard = Callable[[RequestContext, Any, Serve], Any]

REFUSALS = {
    acls.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    acls.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    acls.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    acls.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    acls.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def may(ctx: RequestContext, operation: int, kind: int, name: str) -> bool:
    """Whether the client may do an operation to a resource."""
    authorizer, client = ctx.broker.authorizer, ctx.client
    return authorizer is None or authorizer.allows(
        client.principal, client.client_host, operation, kind, name
    )


def may_all(ctx: RequestContext, operation: int) -> bool:
    """Whether the client may do an operation to the cluster."""
    return may(ctx, operation, acls.CLUSTER, acls.CLUSTER_NAME)


def require(ctx: RequestContext, operation: int, kind: int, name: str) -> None:
    """Raises KafkaError when the client may not do an operation to a resource."""
    if not may(ctx, operation, kind, name):
        raise KafkaError(REFUSALS[kind])


def operations(ctx: RequestContext, kind: int, name: str, possible: int) -> int:
    """The operations (bits) that the client may do, of the possible ones."""
    return sum(1 << bit for bit in range(32) if possible >> bit & 1 and may(ctx, bit, kind, name))


def narrowed(ctx: RequestContext) -> RequestContext:
    """Mark the answer as valid only for this client, so that it is not cached."""
    return replace(ctx, narrowed=True)


def text_of(error: KafkaError) -> str | None:
    """The text of a request's failure where Kafka's controller has none of its own: only that of
    the authorizer is always there."""
    return error.message if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else error.own_words


def on_cluster(*either: int) -> Guard:
    """Guard of an API that needs one of these operations on the cluster."""

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        if not any(may_all(ctx, operation) for operation in either):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return serve(ctx, request)

    return guard


def on_one(operation: int, kind: int, field: str) -> Guard:
    """Guard of an API about one resource, which a field of the request names."""

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        require(ctx, operation, kind, getattr(request, field))
        return serve(ctx, request)

    return guard


def on_each(
    module: ModuleType,
    operation: int,
    kind: int,
    items_field: str,
    answered: str,
    name: str = "name",
) -> Guard:
    """Guard of an API about many resources: those that the client may not use are answered with an
    error.

    items_field: field of the request, a list; name: of an item's field, or empty for items that are
    names. answered: field of the response, a list.
    """

    def guard(ctx: RequestContext, request: Any, serve: Serve) -> Any:
        items = getattr(request, items_field) or []
        parts = divided(items, lambda item: may(ctx, operation, kind, getattr(item, name) if name else item))
        return serve_rest(ctx, module, request, serve, (items_field, answered), parts, REFUSALS[kind])

    return guard


def divided(items: Iterable[T], allows: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """(allowed items, refused items), each in their order. Each item is checked once. Iteration
    over both lists is paced."""
    allowed, refused = SlicedList(), SlicedList()
    for item in paced(items):
        (allowed if allows(item) else refused).append(item)
    return allowed, refused


def visible(items: list[T], shows: Callable[[T], bool]) -> list[T]:
    """The items of an answer that the client may see, in their order. The list itself is freed in
    slices, and so are the other items."""
    shown = [item for item in paced(items) if shows(item)]
    freed(items)
    return shown


def serve_rest(
    ctx: RequestContext,
    module: ModuleType,
    request: Struct,
    serve: Serve,
    fields: tuple[str, str],
    parts: tuple[list[Any], list[Any]],
    code: ErrorCode,
) -> Any:
    """The answer for the allowed items (the first of parts), followed by the refusal of the others,
    if there are any."""
    items_field, answered = fields
    allowed, refused = parts
    if not refused:
        emptied(allowed)
        return serve(ctx, request)
    refusal = module.refuse(changed(request, items_field, refused), KafkaError(code), ctx.version)
    emptied(refused)
    if not allowed:
        return refusal
    rest = changed(request, items_field, allowed)
    finish = partial(_joined, answered, refusal, allowed)
    try:
        answer = serve(narrowed(ctx), rest)
    except KafkaError as error:
        return finish(module.refuse(rest, error, ctx.version))
    return then(answer, finish, lambda error: module.refuse(rest, error, ctx.version))


def _joined(field: str, refusal: Struct, served: list[Any], answer: Struct) -> Struct:
    extend(getattr(answer, field), getattr(refusal, field))
    emptied(served)
    return answer


def extend(answers: list[Any], more: list[Any]) -> None:
    """Move further answers to the end of a list."""
    answers += more
    emptied(more)


def changed(request: Struct, field: str, value: Any) -> Any:
    """A request with another value of a field."""
    return structs.replace(request, **{field: value})
