"""Quotas on /metrics, by kbroker's names and by those of Kafka's JMX exporter."""

from pathlib import Path

import pytest

from kbroker.ipc.client_messages import ClientUse, QuotaUse
from kbroker.ipc.http_messages import ClientMetrics
from tests.http.scene import Scene

WHO = {"quota": "producer_byte_rate", "user": "u", "client_id": "c"}
KAFKA = {"resource": "Produce", "user": "u", "clientId": "c"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def show(scene: Scene, *quotas: QuotaUse) -> None:
    scene.view.pushed = ClientMetrics(0, 0, (), ClientUse((), quotas, 5))


def used(throttled_requests: int = 0, throttled_ms: int = 0) -> QuotaUse:
    return QuotaUse("producer_byte_rate", "u", "c", 100.0, 42.5, throttled_requests, throttled_ms)


def test_a_quota_shows_limit_use_and_throttling(scene: Scene) -> None:
    show(scene, used(3, 1500))
    scrape = scene.scrape()
    for name, value in {
        "kbroker_quota_limit": 100,
        "kbroker_quota_used": 42.5,
        "kbroker_quota_throttled_requests_total": 3,
        "kbroker_quota_throttled_seconds_total": 1.5,
    }.items():
        assert scrape.value(name, **WHO) == value, name
    assert scrape.value("kbroker_quotas_left_out") == 5
    assert scrape.value("kafka_server_quota_byte_rate", **KAFKA) == 42.5


def test_a_quota_that_throttles_no_client_is_shown_as_0(scene: Scene) -> None:
    show(scene, used())
    scrape = scene.scrape()
    assert scrape.value("kbroker_quota_throttled_requests_total", **WHO) == 0
    assert scrape.value("kbroker_quota_throttled_seconds_total", **WHO) == 0
    assert scrape.value("kafka_server_quota_throttle_time", **KAFKA) == 0


def test_a_default_quota_shows_only_its_limit(scene: Scene) -> None:
    show(scene, QuotaUse("producer_byte_rate", "<default>", "", 100.0, None))
    scrape = scene.scrape()
    default = {"quota": "producer_byte_rate", "user": "<default>", "client_id": ""}
    assert scrape.value("kbroker_quota_limit", **default) == 100
    assert not scrape.labels("kbroker_quota_used")
    assert not scrape.labels("kafka_server_quota_byte_rate")


def test_kafkas_throttle_time_is_the_mean_of_the_last_seconds(scene: Scene) -> None:
    show(scene, used(10, 90_000))
    scene.scrape()
    scene.now += 9
    show(scene, used(12, 90_500))
    assert scene.scrape().value("kafka_server_quota_throttle_time", **KAFKA) == 250
    for _ in range(5):
        scene.now += 9
        found = scene.scrape()
    assert found.value("kafka_server_quota_throttle_time", **KAFKA) == 0
