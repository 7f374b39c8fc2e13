"""GetTelemetrySubscriptions and PushTelemetry through control's dispatch."""

import asyncio
from pathlib import Path

from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.metadata.config_resource import CLIENT_METRICS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kbroker.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.api.in_process import ask
from tests.control.fakes import services_of, world
from tests.control.telemetry.payloads import gauge, payload


def test_a_client_asks_and_pushes(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        changes = [Alteration("metrics", Op.SET, "a.,b."), Alteration("interval.ms", Op.SET, "3600000")]
        services = services_of(made.broker)
        asyncio.run(alter(made.broker, CLIENT_METRICS, "s", changes, False))

        answer = asyncio.run(
            ask(made.broker, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, GetTelemetrySubscriptionsRequest())
        )
        assert answer.error_code == ErrorCode.NONE
        assert answer.requested_metrics == ["a.", "b."]
        assert answer.push_interval_ms == 300_000  # no subscription makes it longer
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        assert (answer.telemetry_max_bytes, answer.delta_temporality) == (1_048_576, True)

        again = GetTelemetrySubscriptionsRequest(answer.client_instance_id)
        refused = asyncio.run(ask(made.broker, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, again))
        assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

        push = PushTelemetryRequest(
            answer.client_instance_id, answer.subscription_id, metrics=payload(gauge("a.b", 7))
        )
        for error in (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            assert asyncio.run(ask(made.broker, ApiKey.PUSH_TELEMETRY, 0, push)).error_code == error
        (client,) = services.telemetry.pushed().clients
        assert [(one.metric, one.value) for one in client.samples] == [("a.b", 7.0)]
        assert (client.client_id, client.address) == ("raw", "127.0.0.1")
