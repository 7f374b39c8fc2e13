"""OpenTelemetry MetricsData as clients push it: data points with short, printable texts.

What is read of a payload is bounded: a protobuf of a mebibyte can hold half a million empty
messages. A text may take most of a mebibyte, and protobuf copies it whenever it is read: it is read
once, however many points share it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from math import isfinite
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from kbroker.control.telemetry.cut import Cut, Field, Kind
from kbroker.control.telemetry.points import MAX_TEXT, Key, Labels, Point, printable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

MAX_POINTS: Final = 1000
"""Data points that are read of one payload. A Java producer has some 200 series."""
MAX_GROUPS: Final = 100
"""Resources of a payload, and scopes of a resource: clients send one of each."""
MAX_ATTRIBUTES: Final = 16
AT_ONCE_BYTES: Final = 1 << 15
"""Maximum size of a payload that is decoded at once. Of a larger one, the parts that are not read
are cut first, because decoding cannot be interrupted."""
Names = dict[str, Any]
ATTRIBUTES: Final[Names] = {
    "attributes": {
        "key": None,
        "value": {"string_value": None, "bool_value": None, "int_value": None, "double_value": None},
    }
}
NUMBERS: Final[Names] = {"data_points": {"as_double": None, "as_int": None, **ATTRIBUTES}}
TOTALS: Final[Names] = {"data_points": {"count": None, "sum": None, **ATTRIBUTES}}
DELTA: Final[Names] = {"aggregation_temporality": None}
READ: Final[Names] = {
    "resource_metrics": {
        "resource": ATTRIBUTES,
        "scope_metrics": {
            "metrics": {
                "name": None,
                "gauge": NUMBERS,
                "sum": NUMBERS | DELTA | {"is_monotonic": None},
                "histogram": TOTALS | DELTA,
                "exponential_histogram": TOTALS | DELTA,
                "summary": TOTALS,
            }
        },
    }
}
"""The fields that are read, by their names in OpenTelemetry's messages."""
LIMITS: Final = {
    "resource_metrics": MAX_GROUPS, "scope_metrics": MAX_GROUPS, "attributes": MAX_ATTRIBUTES,
}  # fmt: skip
SHARED: Final = {"metrics": MAX_POINTS, "data_points": MAX_POINTS}
"""Maximum of fields in a payload; of all others one is read in each message."""
COLUMNS: Final = {
    "node": "node", "node_id": "node", "broker_id": "node", "topic": "topic", "partition": "partition",
}  # fmt: skip
"""Attributes with a label of their own; - and . of their names are read as _."""

CHANGING: Final = frozenset(("member_id", "group_member_id"))
"""Attributes that are left out: they change while a client lives, and each value would be a
set of series."""


def _kind(message: Any, names: Names) -> Kind:
    """The fields of a message that are read. message: its descriptor."""
    found = {}
    for name, inner in names.items():
        field = message.fields_by_name[name]
        kind = None if inner is None else _kind(field.message_type, inner)
        found[field.number] = Field(LIMITS.get(name, 1), kind, name if name in SHARED else "")
    return found


DATA: Final = _kind(MetricsData.DESCRIPTOR, READ)


def points(payload: bytes) -> list[Point]:
    """The points of a payload, at most MAX_POINTS. Raises INVALID_RECORD for what is no
    MetricsData."""
    data = MetricsData()
    if len(payload) > AT_ONCE_BYTES:
        payload = bytes(Cut(SHARED.items()).of(memoryview(payload), DATA))
    try:
        data.ParseFromString(payload)
    except (DecodeError, RecursionError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    return list(islice(_points(data), MAX_POINTS))


def _points(data: Any) -> Iterator[Point]:
    metrics = (
        (shared, metric)
        for resource in islice(data.resource_metrics, MAX_GROUPS)
        for shared in (_attributes(resource.resource.attributes),)
        for scope in islice(resource.scope_metrics, MAX_GROUPS)
        for metric in scope.metrics
    )
    data_points = (
        (shared, name, kind, body, point)
        for shared, metric in islice(metrics, MAX_POINTS)
        if (kind := metric.WhichOneof("data")) is not None
        for name, body in ((printable(metric.name), getattr(metric, kind)),)
        for point in body.data_points
    )
    for shared, name, kind, body, point in paced(islice(data_points, MAX_POINTS)):  # valueless ones, too
        if not name:
            continue
        labels = _labels(shared + _attributes(point.attributes))
        if kind in ("gauge", "sum"):
            yield from _number(name, kind, body, point, labels)
        else:
            delta = getattr(body, "aggregation_temporality", 0) == AGGREGATION_TEMPORALITY_DELTA
            yield from _value(f"{name}.count", labels, True, float(point.count), delta)
            yield from _value(f"{name}.sum", labels, False, float(point.sum), delta)


def _number(name: str, kind: str, body: Any, point: Any, labels: Labels) -> Iterator[Point]:
    form = point.WhichOneof("value")
    if form is None:
        return
    value = float(getattr(point, form))
    if kind == "gauge":
        yield from _value(name, labels, False, value, False)
    else:
        delta = body.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
        yield from _value(name, labels, bool(body.is_monotonic), value, delta)


def _value(name: str, labels: Labels, counter: bool, value: float, delta: bool) -> Iterator[Point]:
    """Nothing for a value that would spoil a sum or take a counter back."""
    if (delta and not isfinite(value)) or (counter and not value >= 0):
        return
    yield Point(Key(name, labels, counter), value, delta)


def _attributes(group: Iterable[Any]) -> list[tuple[str, str]]:
    """Names and values of a resource or point."""
    found = []
    for attribute in islice(group, MAX_ATTRIBUTES):
        name = printable(attribute.key).replace(".", "_").replace("-", "_")
        form = attribute.value.WhichOneof("value")
        if form in ("string_value", "int_value", "bool_value", "double_value"):
            found.append((name, printable(str(getattr(attribute.value, form)))))
    return found


def _labels(attributes: Iterable[tuple[str, str]]) -> Labels:
    """node, topic, partition and all other attributes, as name=value in their order."""
    columns = dict.fromkeys(("node", "topic", "partition"), "")
    others = {}
    for name, value in attributes:
        if name in CHANGING:
            continue
        if name in COLUMNS:
            columns[COLUMNS[name]] = value
        else:
            others[name] = value
    text = ",".join(f"{name}={value}" for name, value in sorted(others.items()))
    return Labels(columns["node"], columns["topic"], columns["partition"], text[: 4 * MAX_TEXT])
