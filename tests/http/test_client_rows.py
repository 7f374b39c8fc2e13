"""What clients have pushed is on /metrics, whatever texts they chose."""

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from kbroker.ipc.client_messages import ClientUse, MovedBytes, SoftwareConnections
from kbroker.ipc.http_messages import ClientMetrics, ClientSample, PushingClient
from tests.http.scene import Scene

COUNTER = ClientSample("org.apache.kafka.producer.connection.creation.total", "1", "", "", "", True, 3.0)
GAUGE = ClientSample('a"b\\c', "", "orders", "0", "acks=all", False, 0.5)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    client = PushingClient("etl", "id-1", "librdkafka", "2.1", "10.0.0.1", (COUNTER, GAUGE))
    made.view.pushed = ClientMetrics(4, 9, (client,))
    return made


def test_a_client_has_a_series_for_each_of_its_metrics(scene: Scene) -> None:
    text = scene.collector.text().decode()
    assert (
        'kbroker_client_metric_total{client_id="etl",instance="id-1",'
        'metric="org.apache.kafka.producer.connection.creation.total",'
        'node="1",topic="",partition="",attributes=""} 3.0\n'
    ) in text
    assert (
        'kbroker_client_metric_value{client_id="etl",instance="id-1",metric="a\\"b\\\\c",'
        'node="",topic="orders",partition="0",attributes="acks=all"} 0.5\n'
    ) in text
    assert (
        'kbroker_client_info{client_id="etl",instance="id-1",software_name="librdkafka",'
        'software_version="2.1",address="10.0.0.1"} 1\n'
    ) in text
    assert "\nkbroker_client_instances 4\n" in text
    assert "\nkbroker_client_metrics_left_out 9\n" in text


def test_pushed_series_are_valid_openmetrics(scene: Scene) -> None:
    families = {
        each.name: each for each in parse_openmetrics(scene.collector.text(openmetrics=True).decode())
    }
    (sample,) = families["kbroker_client_metric_value"].samples
    assert sample.labels["metric"] == 'a"b\\c'


def test_series_go_with_their_client(scene: Scene) -> None:
    scene.collector.text()
    scene.view.pushed = ClientMetrics(0, 0, ())
    assert 'client_id="etl"' not in scene.collector.text().decode()


def test_connections_have_the_software_of_their_client(scene: Scene) -> None:
    software = (SoftwareConnections("librdkafka", "2.4.0", "PLAINTEXT", 7),)
    scene.view.pushed = ClientMetrics(0, 0, (), ClientUse(software))
    scrape = scene.scrape()
    named = {"software_name": "librdkafka", "software_version": "2.4.0", "listener": "PLAINTEXT"}
    assert scrape.value("kbroker_connections_by_software", **named) == 7
    kafka = {"clientSoftwareName": "librdkafka", "clientSoftwareVersion": "2.4.0", "listener": "PLAINTEXT"}
    assert scrape.value("kafka_server_socket_server_metrics_connections_software", **kafka) == 7


def test_bytes_have_their_client_id(scene: Scene) -> None:
    assert scene.scrape().value("kbroker_client_received_bytes_total", client_id="other") == 0
    moved = (MovedBytes("etl", 1, 2), MovedBytes("", 3, 4), MovedBytes("other", 5, 6))
    scene.view.pushed = ClientMetrics(0, 0, (), ClientUse(moved=moved))
    scrape = scene.scrape()
    for client_id, received, sent in (("etl", 1, 2), ("", 3, 4), ("other", 5, 6)):
        assert scrape.value("kbroker_client_received_bytes_total", client_id=client_id) == received
        assert scrape.value("kbroker_client_sent_bytes_total", client_id=client_id) == sent


@pytest.mark.parametrize("name", ["unknown", "other"])
def test_software_that_is_not_named_has_series_from_the_start(scene: Scene, name: str) -> None:
    labels = {"software_name": name, "software_version": name, "listener": "PLAINTEXT"}
    assert scene.scrape().value("kbroker_connections_by_software", **labels) == 0
