"""Large payloads of clients are cut to what is read of them."""

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    Summary,
    SummaryDataPoint,
)

from kbroker.control.telemetry import cut, otlp
from kbroker.control.telemetry.cut import MAX_FIELDS, Cut
from kbroker.control.telemetry.otlp import DATA, MAX_GROUPS, MAX_POINTS, SHARED, points
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.telemetry.payloads import attributes, counter, gauge, payload


def cut_of(data: bytes) -> bytes:
    return bytes(Cut(SHARED.items()).of(memoryview(data), DATA))


def every_kind(text: str) -> list[Metric]:
    """A metric of each kind, with a text in each place that has room for one."""
    labels = attributes({f"label-{number}": text for number in range(3)})
    return [
        gauge("gauge" + text, 1.5, topic=text),
        counter("counter" + text, 3, topic=text, partition="4"),
        counter("whole", 3, delta=False),
        Metric(
            name="histogram",
            description=text,
            histogram=Histogram(
                data_points=[HistogramDataPoint(count=3, sum=9.5, attributes=labels, bucket_counts=[1, 2])],
                aggregation_temporality=1,
            ),
        ),
        Metric(
            name="exponential",
            exponential_histogram=ExponentialHistogram(
                data_points=[ExponentialHistogramDataPoint(count=4, sum=2.5, attributes=labels)]
            ),
        ),
        Metric(
            name="summary",
            summary=Summary(data_points=[SummaryDataPoint(count=5, sum=7.5, attributes=labels)]),
        ),
    ]


@pytest.mark.parametrize("size", [1, 300, 20_000])
def test_the_fields_that_are_read_are_not_cut(size: int) -> None:
    whole = payload(*every_kind("x" * size), client_rack="y" * size)
    found = MetricsData.FromString(cut_of(whole))
    assert list(otlp._points(found)) == list(otlp._points(MetricsData.FromString(whole)))


def test_a_large_payload_gives_the_same_points_as_several_small_ones() -> None:
    metrics = [metric for number in range(150) for metric in every_kind(f"-{number}")]
    large = payload(*metrics, client_rack="r1")
    assert len(large) > otlp.AT_ONCE_BYTES
    small = [payload(*metrics[first : first + 6], client_rack="r1") for first in range(0, 900, 6)]
    assert points(large) == [point for each in small for point in points(each)][:MAX_POINTS]


def test_more_than_is_read_is_left_out() -> None:
    labels = {f"l{number}": "x" * 20 for number in range(40)}
    metrics = [gauge(f"m{number}", number, **labels) for number in range(1500)]
    found = MetricsData.FromString(cut_of(payload(*metrics)))
    kept = found.resource_metrics[0].scope_metrics[0].metrics
    assert len(kept) == MAX_POINTS
    assert len(kept[0].gauge.data_points[0].attributes) == otlp.MAX_ATTRIBUTES
    assert len(MetricsData.FromString(cut_of(b"\x0a\x00" * (1 << 19))).resource_metrics) == MAX_GROUPS
    one = gauge("g", 1)
    one.gauge.data_points.extend([one.gauge.data_points[0]] * 3000)
    several = MetricsData.FromString(cut_of(payload(one, one))).resource_metrics[0].scope_metrics[0].metrics
    assert [len(each.gauge.data_points) for each in several] == [MAX_POINTS, 0]


def test_a_bounded_number_of_fields_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    monkeypatch.setattr(cut, "yield_slice", lambda: checks.append(1))
    cut_of(b"\x0a\x00" * (1 << 19))
    assert len(checks) == -(-MAX_FIELDS // cut.STEPS)


@pytest.mark.parametrize(
    "damage",
    [b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff", b"\x80" * 11, b"\x0b\x0c", b"\x09" + bytes(7), b"\x08"],
)
def test_damage_is_an_invalid_record(damage: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        cut_of(damage)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaError):
        points(payload(*(gauge("x" * 300, 1),) * 200) + damage)
