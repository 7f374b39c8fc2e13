"""Prometheus scrapes a broker and has its series."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.group_clients import create_topic, produce
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(200)]

PATIENCE_S = 60


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[KBroker], Prometheus]]:
    """Starts a Prometheus that scrapes a broker."""
    started: list[Prometheus] = []

    def start(broker: KBroker) -> Prometheus:
        started.append(Prometheus(tmp_path, broker))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def test_prometheus_has_the_series_of_a_broker(
    broker_factory: BrokerFactory, prometheus: Callable[[KBroker], Prometheus]
) -> None:
    node = broker_factory()
    create_topic(node, "scraped", 1)
    scraper = prometheus(node)
    assert until(lambda: scraper.values('up{job="kbroker"}') == ["1"], PATIENCE_S)
    produce(node, "scraped", 30)
    end = 'sum(kafka_log_log_logendoffset{topic="scraped"})'
    assert until(lambda: scraper.values(end) == ["30"], PATIENCE_S)
