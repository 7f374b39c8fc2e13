"""Client telemetry, with the rules of Kafka's ClientMetricsManager: which client should push what,
and which pushes are taken."""

import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from kbroker.config.client_metrics import ClientMetricsConfig
from kbroker.config.setting import ConfigError
from kbroker.control.broker import Broker
from kbroker.control.metadata.config_resource import CLIENT_METRICS
from kbroker.control.telemetry.instances import ClientInstance, ClientSubscription, Instances
from kbroker.control.telemetry.series import ClientSeriesTable
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.http_messages import ClientMetrics
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec, bounded_pieces
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.kafka_uuid import format_uuid
from kbroker.protocol.messages.push_telemetry import PushTelemetryRequest
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import yield_slice

log = logging.getLogger(__name__)

ZERO: Final = bytes(16)
RESERVED: Final = (ZERO, bytes(15) + b"\1")
ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Codecs that clients may use, in order of preference; uncompressed payloads are accepted, too."""
ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors after which a client requests its subscription at once."""
MAX_TEXT: Final = 255
"""Maximum of characters that are used of each text by which a client describes itself."""
PIECE_BYTES: Final = 1 << 14
"""Decompressed bytes of a piece; each may be a frame of zstd."""


class TelemetryService:
    """Runs in: control. Owner: Services."""

    def __init__(self, broker: Broker, clock_ms: Callable[[], int] = monotonic_ms) -> None:
        self._broker = broker
        self._clock_ms = clock_ms
        config = broker.config
        self.max_bytes = config.get_int("telemetry.max.bytes")
        self._series = ClientSeriesTable(config.get_int("kbroker.client.telemetry.series.max"))
        self._instances = Instances(
            lambda instance_id: self._series.client_left(instance_id, self._clock_ms())
        )
        self._subscriptions: dict[str, ClientMetricsConfig] = {}
        self._version = 0
        for kind, name in broker.overrides:
            self._config_changed(kind, name)
        broker.listeners.config.append(self._config_changed)
        broker.listeners.connection.append(self._instances.closed)
        broker.listeners.sliced_apis.add(ApiKey.PUSH_TELEMETRY)  # 100 bytes of zstd may be 1,000 points

    def subscribe(self, instance_id: bytes, client: ClientRequest) -> ClientInstance:
        """A client asks what to push. Raises THROTTLING_QUOTA_EXCEEDED."""
        if instance_id == ZERO:
            instance_id = uuid.uuid4().bytes
        instance = self._instance(instance_id, client)
        if not instance.may_get(self._clock_ms()) and instance.last_error not in ASK_AGAIN:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance

    def push(self, request: PushTelemetryRequest, client: ClientRequest) -> None:
        """A client pushes. Raises KafkaError."""
        if request.client_instance_id in RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(request.client_instance_id, client)
        try:
            self._check(instance, request)
            if request.metrics:
                self._take(instance, request)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = request.terminating
        instance.last_error = ErrorCode.NONE

    def pushed(self) -> ClientMetrics:
        """The metrics that /metrics shows."""
        self._sweep()
        return ClientMetrics(len(self._instances), self._series.left_out, self._series.all())

    def _check(self, instance: ClientInstance, request: PushTelemetryRequest) -> None:
        if instance.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not instance.may_push(self._clock_ms()) and not request.terminating:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if request.subscription_id != instance.subscription_id:
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if request.compression_type != Codec.NONE and request.compression_type not in ACCEPTED:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(request.metrics) > self.max_bytes:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _take(self, instance: ClientInstance, request: PushTelemetryRequest) -> None:
        # Here, as it imports protobuf, which only brokers that are pushed to need.
        from kbroker.control.telemetry.otlp import points

        payload = plain(request.compression_type, request.metrics, self.max_bytes)
        self._series.add(instance.instance_id, instance.client, points(payload))
        if self._instances.get(instance.instance_id) is None:  # it has left during a pause
            self._series.client_left(instance.instance_id, self._clock_ms())

    def _instance(self, instance_id: bytes, client: ClientRequest) -> ClientInstance:
        """The client's subscription, evaluated again when subscriptions have changed."""
        self._sweep()
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            known = _attributes(instance_id, client) if instance is None else instance.client
            subscription = ClientSubscription.of(self._subscriptions, known)
            instance = ClientInstance(instance_id, known, client.connection_id, subscription, self._version)
            self._instances.put(instance)
        self._instances.used(instance, self._clock_ms())
        return instance

    def _sweep(self) -> None:
        now_ms = self._clock_ms()
        self._instances.sweep(now_ms)
        self._series.sweep(now_ms)

    def _config_changed(self, kind: int, name: str) -> None:
        if kind != CLIENT_METRICS:
            return
        self._version += 1
        self._subscriptions.pop(name, None)
        overrides = self._broker.override(kind, name)
        if not overrides:
            return
        try:
            self._subscriptions[name] = ClientMetricsConfig.resolve(overrides)
        except ConfigError as error:
            log.warning("the client metrics subscription %s is ignored: %s", name, error)


def _attributes(instance_id: bytes, client: ClientRequest) -> Mapping[str, str]:
    """The properties that `match` may name. A property that the client has not sent matches no
    pattern."""
    plain_texts = {
        "client_id": client.client_id,
        "client_software_name": client.software_name or None,
        "client_software_version": client.software_version or None,
    }
    return {
        "client_instance_id": format_uuid(instance_id),
        "client_source_address": client.client_host,
        "client_source_port": str(client.client_port),
        **{name: value[:MAX_TEXT] for name, value in plain_texts.items() if value is not None},
    }


def plain(codec: int, data: bytes, max_bytes: int) -> bytes:
    """The payload. Raises INVALID_RECORD for damage, and as soon as it has more bytes:
    TELEMETRY_TOO_LARGE is only for the bytes of the request, as in Kafka.

    It is decompressed in slices: a mebibyte may consist of a hundred thousand frames."""
    found = bytearray()
    try:
        for piece in bounded_pieces(codec, data, max_bytes, PIECE_BYTES):
            yield_slice()
            found += piece
    except (ProtocolError, MemoryError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    return bytes(found)
