"""MetricsData as clients make it."""

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)


def attributes(values: Mapping[str, str]) -> list[KeyValue]:
    """String attributes."""
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def gauge(name: str, value: float, **labels: str) -> Metric:
    """A gauge of one point."""
    point = NumberDataPoint(as_double=value, attributes=attributes(labels))
    return Metric(name=name, gauge=Gauge(data_points=[point]))


def counter(name: str, value: int, delta: bool = True, monotonic: bool = True, **labels: str) -> Metric:
    """A sum of one point."""
    kind = AGGREGATION_TEMPORALITY_DELTA if delta else AGGREGATION_TEMPORALITY_CUMULATIVE
    point = NumberDataPoint(as_int=value, attributes=attributes(labels))
    body = Sum(data_points=[point], aggregation_temporality=kind, is_monotonic=monotonic)
    return Metric(name=name, sum=body)


def payload(*metrics: Metric, **resource: str) -> bytes:
    """One resource with one scope, as all clients send it."""
    one = ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])
    one.resource.attributes.extend(attributes(resource))
    return MetricsData(resource_metrics=[one]).SerializeToString()
