"""GetTelemetrySubscriptions (key 71), v0: the metrics that a client pushes, and their interval
(KIP-714)."""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.telemetry.service import ACCEPTED
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

API = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0)


def handle(
    ctx: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """The metrics of all subscriptions that match the client; assigns an instance id to a new
    client."""
    service = ctx.services.telemetry
    instance = service.subscribe(request.client_instance_id, ctx.client)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=instance.subscription.interval_ms,
        telemetry_max_bytes=service.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )


def refuse(
    request: GetTelemetrySubscriptionsRequest, error: KafkaError, version: int
) -> GetTelemetrySubscriptionsResponse:
    """The request failed as a whole."""
    return GetTelemetrySubscriptionsResponse(error_code=error.code)
