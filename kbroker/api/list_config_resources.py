"""ListConfigResources (key 74), v0-1: names of resources that can have configs.

v0 only client metrics subscriptions (KIP-714, as ListClientMetricsResources); v1 all types, an
empty list means all (KIP-1142).
"""

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.control.broker import Broker
from kbroker.control.metadata.config_resource import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    NAMES,
    TOPIC,
)
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, fast_paths=(REPEATED,))


def handle(
    ctx: RequestContext, request: ListConfigResourcesRequest
) -> CachedAnswer | ListConfigResourcesResponse:
    """Groups and subscriptions that have configs; nodes and topics that exist. The types come in
    Kafka's order, whatever that of the request is."""
    kinds = [CLIENT_METRICS] if ctx.version == 0 else request.resource_types or sorted(NAMES)
    if any(kind not in NAMES for kind in kinds):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return cached_answers(
        ctx,
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(name, kind)
                for kind in sorted(set(kinds), reverse=True)
                for name in paced(_names(ctx.broker, kind))
            ]
        ),
    )


def refuse(
    request: ListConfigResourcesRequest, error: KafkaError, version: int
) -> ListConfigResourcesResponse:
    """The request failed as a whole."""
    return ListConfigResourcesResponse(error_code=error.code)


def _names(broker: Broker, kind: int) -> list[str]:
    if kind == TOPIC:
        return list(broker.catalogue.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(site.node_id) for site in broker.nodes.sites]
    assert kind in (GROUP, CLIENT_METRICS)
    return [name for known, name in broker.overrides if known == kind]
