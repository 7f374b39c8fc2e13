"""DescribeClientQuotas (key 48), v0-1: the quotas of the entities that a filter matches (KIP-546).

v1 flexible. A component matches an exact name (0), the default entity (1), or any entity with this
type (2); strict leaves out entities that have other types as well.
"""

from collections.abc import Iterable

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.config.client_quotas import IP, TYPES, Entity, in_kafka_order
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kbroker.protocol.slices import in_order, paced

API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, fast_paths=(REPEATED,))

EXACT, DEFAULT, SPECIFIED = range(3)
_NAMES = ("MATCH_TYPE_EXACT", "MATCH_TYPE_DEFAULT", "MATCH_TYPE_SPECIFIED")


def handle(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> CachedAnswer | DescribeClientQuotasResponse:
    """Entities and their values."""
    exact: dict[str, str | None] = {}
    present: set[str] = set()
    for component in request.components:
        _check(component, {*exact, *present})
        if component.match_type == SPECIFIED:
            present.add(component.entity_type)
        else:
            exact[component.entity_type] = component.match
    kinds = {*exact, *present}
    if IP in kinds and len(kinds) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        )
    entries = []
    for entity, values in paced(in_kafka_order(dict(ctx.broker.quotas.quotas), in_order)):
        if _matches(dict(entity), exact, present, request.strict):
            entries.append(_entry(entity, values))
    return cached_answers(ctx, DescribeClientQuotasResponse(0, ErrorCode.NONE, "", entries))


def refuse(
    request: DescribeClientQuotasRequest, error: KafkaError, version: int
) -> DescribeClientQuotasResponse:
    """The request failed as a whole."""
    return DescribeClientQuotasResponse(0, error.code, error.own_words, None)


def _check(component: ComponentData, seen: set[str]) -> None:
    kind, match = component.match_type, component.match
    if not component.entity_type:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if component.entity_type in seen:
        why = f"Entity type {component.entity_type} cannot appear more than once in the filter."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if component.entity_type not in TYPES:
        why = f"Unsupported entity type {component.entity_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
    if not EXACT <= kind <= SPECIFIED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {kind}")
    if kind == EXACT and match is None:
        why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if kind != EXACT and match is not None:
        why = f"Request specified {_NAMES[kind]}, but also specified a match string."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def _matches(
    entity: dict[str, str | None], exact: dict[str, str | None], present: set[str], strict: bool
) -> bool:
    if strict and len(entity) != len(exact) + len(present):
        return False
    return present <= entity.keys() and all(
        kind in entity and entity[kind] == name for kind, name in exact.items()
    )


def _entry(entity: Entity, values: Iterable[tuple[str, float]]) -> EntryData:
    return EntryData([EntityData(*pair) for pair in entity], [ValueData(*pair) for pair in values])
