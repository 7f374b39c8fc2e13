"""PushTelemetry (key 72), v0: a client's metrics as OpenTelemetry's MetricsData, perhaps compressed
(KIP-714)."""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

API = Api(ApiKey.PUSH_TELEMETRY, 0, 0)


def handle(ctx: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Store the pushed metrics for /metrics."""
    ctx.services.telemetry.push(request, ctx.client)
    return PushTelemetryResponse()


def refuse(request: PushTelemetryRequest, error: KafkaError, version: int) -> PushTelemetryResponse:
    """The request failed as a whole."""
    return PushTelemetryResponse(error_code=error.code)
