"""Metrics that clients push: compressed OpenTelemetry, and the series that it becomes."""

import random
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Histogram,
    HistogramDataPoint,
    Metric,
)

from kbroker.control.telemetry.otlp import MAX_POINTS, points
from kbroker.control.telemetry.series import ClientSeriesTable
from kbroker.control.telemetry.service import plain
from kbroker.ipc.http_messages import ClientMetrics
from kbroker.ipc.wire import pack
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import KafkaError
from tests.control.telemetry.payloads import counter, gauge, payload
from tests.fuzz.guided.target import Mix, Run, Target

MAX_BYTES = 1 << 20
CLIENT = {"client_id": "c", "client_instance_id": "i"}


def _prepare(_: Path) -> Run:
    def run(data: bytes) -> None:
        if not data:
            return
        table = ClientSeriesTable(100)
        for _turn in range(2):
            try:
                found = points(plain(data[0] % 8, data[1:], MAX_BYTES))
            except KafkaError:
                return
            assert len(found) <= 2 * MAX_POINTS
            table.add(b"i", CLIENT, found)
        shown = ClientMetrics(1, table.left_out, table.all())
        pack(1, shown)
        for client in shown.clients:
            for sample in client.samples:
                texts = (sample.metric, sample.node, sample.topic, sample.partition, sample.attributes)
                assert all(text.isprintable() for text in texts), sample

    return run


def _seeds(_: random.Random) -> Iterable[bytes]:
    kind = AGGREGATION_TEMPORALITY_DELTA
    histogram = Histogram(data_points=[HistogramDataPoint(count=3, sum=9.5)], aggregation_temporality=kind)
    plain_payload = payload(
        gauge("g", 1.5, topic="t", partition="0", member_id="m"),
        counter("c.total", 3, node_id="1", other="x"),
        counter("whole", 4, delta=False, monotonic=False),
        Metric(name="h", histogram=histogram),
        client="r",
    )
    for codec in Codec:
        yield bytes((codec,)) + compress(codec, plain_payload)
    yield b"\0" + payload(gauge("", float("nan")), counter("n", -1))


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Often the payload before its compression."""
    codec, found = data[:1] or b"\0", data[1:]
    if codec[0] in list(Codec) and rng.random() < 0.7:
        try:
            found = compress(Codec(codec[0]), mix(plain(codec[0], found, MAX_BYTES)))
            return codec + found
        except KafkaError:
            pass
    return (codec if rng.random() < 0.9 else rng.randbytes(1)) + mix(found)


TARGETS = (
    Target(
        "telemetry",
        "metrics that clients push: compressed OpenTelemetry, and its series",
        ("kbroker.control.telemetry.", "kbroker.protocol.compression"),
        _prepare,
        _seeds,
        _change,
    ),
)
