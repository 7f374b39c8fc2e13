"""A running broker, scraped over HTTP."""

import time
from collections.abc import Callable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base, get, scrape

pytestmark = pytest.mark.slow


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_ready_broker_answers_its_probes(broker: KBroker) -> None:
    assert get(base(broker) + "/healthz")[::2] == (200, "ok\n")
    deadline = time.monotonic() + 60  # clients can be served before the http process has heard so
    while (reported := get(base(broker) + "/readyz")[::2]) != (200, "ok\n") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert reported == (200, "ok\n")
    assert get(base(broker) + "/nothing")[0] == 404


def test_the_format_is_the_requested_one(broker: KBroker) -> None:
    _, kind, text = get(base(broker) + "/metrics")
    assert kind.startswith("text/plain")
    assert "# TYPE kbroker_scrapes_total counter" in text
    _, kind, text = get(base(broker) + "/metrics", "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert {family.name for family in text_string_to_metric_families(text)} >= {"kbroker_scrapes"}


def test_every_process_shows_its_memory(broker: KBroker) -> None:
    found = {labels["process"] for labels in scrape(broker).labels("kbroker_process_memory_bytes")}
    assert {"acceptor", "control", "http", "io-0", "network-0"} <= found


def test_counters_survive_the_death_of_a_child(broker_factory: BrokerFactory) -> None:
    node = broker_factory()
    before = scrape(node)
    scrapes = before.value("kbroker_scrapes_total")
    node.kill9_child("http")
    until(lambda: _answers(node), "the http process does not come back")
    after = scrape(node)
    assert after.value("kbroker_scrapes_total") > scrapes
    assert after.value("kbroker_process_starts_total", role="http") == 2
    assert after.value("kbroker_process_deaths_total", role="http") == 1


def test_a_broker_is_ready_again_after_the_death_of_control(
    broker_factory: BrokerFactory,
) -> None:
    node = broker_factory()
    node.kill9_child("control")
    until(lambda: _deaths(node, "control") == 1, "the death is not counted")
    until(lambda: get(base(node) + "/readyz")[0] == 200, "the broker does not become ready again")


def test_the_http_process_starts_with_the_first_request_and_answers_it(
    broker_factory: BrokerFactory,
) -> None:
    node = broker_factory()
    assert not {"kbroker: http", "kbroker: cleaner"} & set(_titles(node))
    assert get(base(node) + "/readyz")[::2] == (200, "ok\n")
    assert "kbroker: http" in node.children()
    assert scrape(node).value("kbroker_process_starts_total", role="http") == 1
    assert scrape(node).value("kbroker_process_starts_total", role="cleaner") == 0
    assert "kbroker: cleaner" not in node.children()


def test_the_http_process_starts_with_the_broker_where_it_serves_a_registry(
    broker_factory: BrokerFactory,
) -> None:
    node = broker_factory({"kbroker.schema.registry.listen": "127.0.0.1:0"})
    until(lambda: "kbroker: http" in node.children(), "no http process")


def test_a_broker_whose_http_process_never_ran_stops_cleanly(broker_factory: BrokerFactory) -> None:
    node = broker_factory()
    node.stop()
    assert "kbroker stopped\n" in node.logs()


def test_the_http_process_can_be_left_out(broker_factory: BrokerFactory) -> None:
    node = broker_factory({"kbroker.http.listen": ""})
    assert "metrics=" not in node.log_file.read_text()
    assert not [title for title in node.children() if title.startswith("kbroker: http")]


def _titles(node: KBroker) -> list[str]:
    """Of the children, once each has its own."""
    until(lambda: all(title.startswith("kbroker: ") for title in node.children()), "a child has no title")
    return list(node.children())


def _deaths(node: KBroker, role: str) -> float:
    try:
        return scrape(node).value("kbroker_process_deaths_total", role=role)
    except KeyError:
        return 0


def _answers(node: KBroker) -> bool:
    try:
        return get(base(node) + "/readyz")[0] == 200
    except OSError:
        return False
