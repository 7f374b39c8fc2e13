"""Requests and pushes of telemetry that are accepted, as by Kafka's ClientMetricsManager."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from greenlet import getcurrent

from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.metadata.config_resource import CLIENT_METRICS
from kbroker.control.requests import Requests
from kbroker.control.telemetry import instances
from kbroker.control.telemetry.instances import ClientInstance
from kbroker.control.telemetry.series import KEPT_MS
from kbroker.control.telemetry.service import ZERO, TelemetryService, plain
from kbroker.ipc.background import Background
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.push_telemetry import PushTelemetryRequest
from kbroker.protocol.slices import Work
from tests.api.in_process import client_request
from tests.control.fakes import World, world
from tests.control.telemetry.payloads import counter, gauge, payload

METRICS = payload(counter("c", 2), gauge("g", 1))
INTERVAL_MS = 1000


class Case:
    """A broker with a subscription of everything, and its telemetry under a clock of its own."""

    def __init__(self, made: World) -> None:
        self.broker = made.broker
        self.now_ms = 10_000_000
        self.subscribe("all", metrics="*", **{"interval.ms": str(INTERVAL_MS)})
        self.service = TelemetryService(made.broker, lambda: self.now_ms)

    def subscribe(self, name: str, **settings: str | None) -> None:
        changes = [
            Alteration(key, Op.DELETE if value is None else Op.SET, value) for key, value in settings.items()
        ]
        asyncio.run(alter(self.broker, CLIENT_METRICS, name, changes, False))

    def get(self, instance_id: bytes = ZERO, **client: Any) -> ClientInstance:
        return self.service.subscribe(instance_id, asking(**client))

    def push(self, instance: ClientInstance, **fields: Any) -> None:
        request = PushTelemetryRequest(instance.instance_id, instance.subscription_id, metrics=METRICS)
        for name, value in fields.items():
            setattr(request, name, value)
        self.service.push(request, asking())

    def refusal(self, instance: ClientInstance, **fields: Any) -> int:
        with pytest.raises(KafkaError) as refused:
            self.push(instance, **fields)
        return refused.value.code

    @property
    def values(self) -> dict[str, float]:
        return {s.metric: s.value for one in self.service.pushed().clients for s in one.samples}


def asking(**fields: Any) -> ClientRequest:
    return msgspec.structs.replace(client_request(ApiKey.PUSH_TELEMETRY, 0, b""), **fields)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with world(tmp_path) as made:
        yield Case(made)


def test_a_client_gets_an_id_and_its_subscription(case: Case) -> None:
    first, second = case.get(), case.get(connection_id=2)
    assert first.instance_id not in (ZERO, second.instance_id)
    assert (first.subscription.metrics, first.subscription.interval_ms) == (("*",), INTERVAL_MS)
    assert first.subscription_id != second.subscription_id


def test_subscriptions_that_match_add_up(case: Case) -> None:
    case.subscribe("all", metrics="b.,a.", match="client_id=raw")
    case.subscribe("more", metrics="c.", match="client_software_name=lib.*", **{"interval.ms": "100"})
    case.subscribe("others", metrics="d.", match="client_id=other")
    plain, lib = case.get(), case.get(connection_id=2, software_name="librdkafka")
    assert (plain.subscription.metrics, plain.subscription.interval_ms) == (("a.", "b."), INTERVAL_MS)
    assert (lib.subscription.metrics, lib.subscription.interval_ms) == (("a.", "b.", "c."), 100)
    nothing = case.get(connection_id=3, client_id="nobody")
    assert (nothing.subscription.metrics, nothing.subscription.interval_ms) == ((), 300_000)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("client_source_address=127\\.0\\..*", True),
        ("client_source_port=50000", True),
        ("client_source_port=5", False),
        ("client_software_version=.*", False),
        ("client_instance_id=.{22}", True),
    ],
)
def test_every_selector_looks_at_its_attribute(case: Case, pattern: str, matches: bool) -> None:
    case.subscribe("all", match=pattern)
    assert bool(case.get().subscription.metrics) is matches


def test_a_question_before_the_interval_has_passed_is_throttled(case: Case) -> None:
    instance = case.get()
    with pytest.raises(KafkaError) as refused:
        case.get(instance.instance_id)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    case.now_ms += INTERVAL_MS
    assert case.get(instance.instance_id).subscription_id == instance.subscription_id


def test_a_push_right_after_the_question_is_taken_the_next_waits_its_interval(case: Case) -> None:
    instance = case.get()
    case.now_ms += 1
    case.push(instance)
    case.now_ms += INTERVAL_MS - 1
    assert case.refusal(instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    case.now_ms += 1
    case.push(instance)
    assert case.values == {"c": 4.0, "g": 1.0}


def test_a_wrong_subscription_id_lets_the_client_ask_again_at_once(case: Case) -> None:
    instance = case.get()
    assert case.refusal(instance, subscription_id=instance.subscription_id + 1) == (
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    )
    assert case.get(instance.instance_id) is instance


def test_a_changed_subscription_is_known_at_the_next_push(case: Case) -> None:
    instance = case.get()
    case.push(instance)
    case.subscribe("all", metrics="only.this.")
    assert case.refusal(instance) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert case.get(instance.instance_id).subscription.metrics == ("only.this.",)
    case.subscribe("all", metrics=None, **{"interval.ms": None})
    assert case.get(instance.instance_id).subscription.metrics == ()


@pytest.mark.parametrize("instance_id", [ZERO, bytes(15) + b"\1"])
def test_a_reserved_id_is_an_invalid_request(case: Case, instance_id: bytes) -> None:
    instance = replace(case.get(), instance_id=instance_id)
    assert case.refusal(instance) == ErrorCode.INVALID_REQUEST


def test_after_the_terminating_push_there_is_none(case: Case) -> None:
    instance = case.get()
    case.push(instance)
    case.push(instance, terminating=True)  # does not wait for its interval
    case.now_ms += INTERVAL_MS
    assert case.refusal(instance, terminating=True) == ErrorCode.INVALID_REQUEST
    assert case.values["c"] == 4.0


@pytest.mark.parametrize("codec", list(Codec))
def test_every_compression_is_taken(case: Case, codec: Codec) -> None:
    case.push(case.get(), compression_type=codec, metrics=compress(codec, METRICS))
    assert case.values == {"c": 2.0, "g": 1.0}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(1_048_577)}, ErrorCode.TELEMETRY_TOO_LARGE),
        (
            {"metrics": compress(Codec.ZSTD, bytes(2_000_000)), "compression_type": 4},
            ErrorCode.INVALID_RECORD,
        ),
        ({"metrics": b"\xff\xff\xff"}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"x", "compression_type": 1}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_push_is_refused_and_leaves_nothing(case: Case, fields: Any, error: ErrorCode) -> None:
    instance = case.get()
    assert case.refusal(instance, **fields) == error
    assert case.values == {}
    assert instance.last_error == error


def test_an_empty_push_is_taken(case: Case) -> None:
    case.push(case.get(), metrics=b"")
    assert case.values == {}


def test_a_silent_instance_is_forgotten_and_its_series_a_while_later(case: Case) -> None:
    case.push(case.get())
    assert case.service.pushed().instances == 1
    case.now_ms += instances.EXPIRY_MS
    assert (case.service.pushed().instances, len(case.values)) == (0, 2)
    case.now_ms += KEPT_MS
    assert case.values == {}


def test_an_instance_is_forgotten_with_its_connection(case: Case) -> None:
    instance = case.get()
    for listener in case.broker.listeners.connection:
        listener(asking().connection_id)
    assert case.service.pushed().instances == 0
    case.push(instance)  # a client on another connection continues its subscription
    assert case.values["c"] == 2.0


def test_series_of_a_client_that_leaves_while_its_push_is_read_are_dropped(case: Case) -> None:
    instance = case.get()
    metrics = compress(Codec.GZIP, b"") * 20_000 + compress(Codec.GZIP, METRICS)
    work = Work(partial(case.push, instance, compression_type=Codec.GZIP, metrics=metrics))
    work.run_slice()
    assert not work.done
    for listener in case.broker.listeners.connection:
        listener(asking().connection_id)
    while not work.done:
        work.run_slice()
    assert case.values == {"c": 2.0, "g": 1.0}
    case.now_ms += KEPT_MS
    assert case.values == {}


def test_instances_are_bounded(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 10)
    for number in range(100):
        case.push(case.get(connection_id=number))
    assert case.service.pushed().instances == 10
    for _ in range(50):
        case.get(connection_id=99)  # one connection, always another client
    assert case.service.pushed().instances == 10


def test_subscriptions_of_an_earlier_start_are_in_force(case: Case) -> None:
    again = TelemetryService(case.broker, lambda: case.now_ms)
    assert again.subscribe(ZERO, asking()).subscription.metrics == ("*",)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    data = bytes(range(256)) * 40
    assert plain(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_very_many_frames_are_decompressed_in_slices(codec: Codec) -> None:
    data = compress(codec, b"") * 20_000 + compress(codec, b"x")
    work = Work(partial(plain, codec, data, 1 << 20))
    found = work.run_slice()
    while not work.done:
        found = work.run_slice()
    assert found == b"x"
    assert work.slices > 3


def test_a_short_push_is_served_in_slices(case: Case) -> None:
    """In one piece, 101 bytes of zstd took 28 ms: 1,000 points with 16 attributes each."""
    labels = {f"label-{number}": "x" for number in range(16)}
    metrics = compress(Codec.ZSTD, payload(*[gauge("g", 1, **labels)] * 1000), 19)
    assert len(metrics) < 512
    client = case.get()
    slices: list[int] = []

    def dispatch(_: ClientRequest) -> bytes:
        case.push(client, compression_type=Codec.ZSTD, metrics=metrics)
        slices.append(getattr(getcurrent(), "slices", 0))
        return b""

    async def serve() -> None:
        background = Background(logging.getLogger(__name__), "failed")
        link: Any = SimpleNamespace(reply=lambda *_: None)
        Requests(case.broker, dispatch, background).serve(link, 1, asking())
        async with asyncio.timeout(60):
            while not slices:
                await asyncio.sleep(0)

    asyncio.run(serve())
    assert slices[0] > 3
    assert len(case.values) == 1


def test_payloads_that_are_decompressed_at_the_same_time_do_not_mix() -> None:
    texts = [Random(number).randbytes(700_000) for number in range(2)]
    empty = compress(Codec.ZSTD, b"") * 5_000
    works = [Work(partial(plain, Codec.ZSTD, empty + compress(Codec.ZSTD, text), 1 << 20)) for text in texts]
    found = [b"", b""]
    while not all(work.done for work in works):
        for number, work in enumerate(works):
            if not work.done:
                found[number] = work.run_slice()
    assert found == texts


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_an_invalid_record(codec: Codec) -> None:
    with pytest.raises(KafkaError, match="more than the 1048576 bytes") as refused:
        plain(codec, compress(codec, bytes(50 << 20)), 1 << 20)
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("data", [b"garbage", b"\xff" * 40])
def test_damage_is_an_invalid_record(codec: Codec, data: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        plain(codec, data, 1 << 20)
    assert refused.value.code == ErrorCode.INVALID_RECORD
