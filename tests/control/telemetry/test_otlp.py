"""What is read of a client's payload: numbers with short printable labels, and never more than is
allowed."""

import random
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
)

from kbroker.control.telemetry import otlp
from kbroker.control.telemetry.otlp import MAX_POINTS, points
from kbroker.control.telemetry.points import MAX_TEXT, Key, Labels, Point, printable
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.telemetry.payloads import counter, gauge, payload

NOWHERE = Labels("", "", "", "")


def test_gauges_are_set_and_sums_are_added_or_set() -> None:
    found = points(
        payload(
            gauge("g", 1.5),
            counter("delta", 3),
            counter("whole", 4, delta=False),
            counter("updown", -2, monotonic=False),
        )
    )
    assert found == [
        Point(Key("g", NOWHERE, False), 1.5, False),
        Point(Key("delta", NOWHERE, True), 3.0, True),
        Point(Key("whole", NOWHERE, True), 4.0, False),
        Point(Key("updown", NOWHERE, False), -2.0, True),
    ]


def test_a_histogram_gives_its_count_and_its_sum() -> None:
    body = Histogram(data_points=[HistogramDataPoint(count=3, sum=9.5)], aggregation_temporality=1)
    found = points(payload(Metric(name="h", histogram=body)))
    assert [(one.key.metric, one.key.counter, one.value, one.delta) for one in found] == [
        ("h.count", True, 3.0, True),
        ("h.sum", False, 9.5, True),
    ]


def test_attributes_of_resource_and_point_become_labels() -> None:
    metric = gauge("g", 1, **{"node.id": "7", "topic": "orders", "partition": "3", "acks": "all"})
    (found,) = points(payload(metric, client_rack="r1", **{"group.member-id": "changes"}))
    assert found.key.labels == Labels("7", "orders", "3", "acks=all,client_rack=r1")


def test_texts_are_cut_and_printable() -> None:
    (found,) = points(payload(gauge("a\nb\x00" + "x" * 500, 1, topic="\u202e\t" + "y" * 500)))
    assert found.key.metric == "a?b?" + "x" * (MAX_TEXT - 4)
    assert found.key.labels.topic == "??" + "y" * (MAX_TEXT - 2)


@pytest.mark.parametrize("value", [-1, -(2**62)])
def test_a_counter_never_goes_back(value: int) -> None:
    assert points(payload(counter("c", value))) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_delta_that_is_no_number_is_left_out_and_a_gauge_may_be_one(value: float) -> None:
    metric = counter("c", 0)
    metric.sum.data_points[0].as_double = value
    assert points(payload(metric)) == []
    assert len(points(payload(gauge("g", value)))) == 1


def test_a_payload_gives_a_bounded_number_of_points() -> None:
    many = payload(*(gauge(f"m{number}", number) for number in range(MAX_POINTS + 500)))
    assert len(points(many)) == MAX_POINTS


def test_half_a_million_empty_messages_are_read_in_bounds() -> None:
    assert points(b"\x0a\x00" * (1 << 19)) == []
    empty = ResourceMetrics()
    empty.scope_metrics.add().metrics.extend([Metric(name="m")] * 10_000)
    assert points(MetricsData(resource_metrics=[empty]).SerializeToString()) == []


def test_data_points_without_a_value_are_read_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million of them took control half a minute, for their labels."""
    read: list[Any] = []
    labels = otlp._labels

    def counted(*groups: Any) -> Labels:
        read.append(groups)
        return labels(*groups)

    monkeypatch.setattr(otlp, "_labels", counted)
    data = MetricsData(resource_metrics=[ResourceMetrics()])
    scope = data.resource_metrics[0].scope_metrics.add()
    for _ in range(4):
        metric = scope.metrics.add(name="g")
        for _ in range(MAX_POINTS // 2):
            metric.gauge.data_points.add()
    assert points(data.SerializeToString()) == []
    assert len(read) == MAX_POINTS


def test_texts_that_many_points_share_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of a mebibyte that was read for each of a thousand points took control 1.7 s."""
    read: list[str] = []

    def noted(text: str) -> str:
        read.append(text)
        return printable(text)

    monkeypatch.setattr(otlp, "printable", noted)
    metric = gauge("name", 1)
    metric.gauge.data_points.extend([metric.gauge.data_points[0]] * 9)
    found = points(payload(metric, key="value"))
    assert found == [Point(Key("name", Labels("", "", "", "key=value"), False), 1.0, False)] * 10
    assert sorted(read) == ["key", "name", "value"]


def test_garbage_is_an_invalid_record_or_nothing() -> None:
    chance = random.Random(7)
    good = payload(gauge("g", 1.5, topic="t"), counter("c", 3, node="1"))
    codes = set()
    for _ in range(500):
        data = bytearray(good if chance.random() < 0.7 else chance.randbytes(200))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            points(bytes(data))
        except KafkaError as error:
            codes.add(error.code)
    assert codes == {ErrorCode.INVALID_RECORD}
    nested = b""
    for _ in range(2000):  # an AnyValue in an array in an AnyValue ...
        nested = (
            b"\x2a" + _size(len(nested) + 1 + len(_size(len(nested)))) + b"\x0a" + _size(len(nested)) + nested
        )
    deep = b"\x12" + _size(len(nested)) + nested
    deep = b"\x0a" + _size(len(deep)) + deep  # an attribute of the resource
    deep = b"\x0a" + _size(len(deep)) + deep
    deep = b"\x0a" + _size(len(deep)) + deep
    with pytest.raises(KafkaError):
        points(deep)


def _size(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
