"""Messages that serializers wrote with schemas of the broker's registry are read in the console."""

import json
import struct

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conftest import BrokerFactory
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.service import Service

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"city","type":"string"}]}'
)


def test_avro_is_shown_as_json_with_its_schema(
    broker_factory: BrokerFactory, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node = broker_factory({"kbroker.schema.registry.listen": "127.0.0.1:0"})
    registry = next(
        word.removeprefix("registry=")
        for word in node.log_file.read_text().split()
        if word.startswith("registry=")
    )
    avro = AvroSerializer(SchemaRegistryClient({"url": registry}), ORDER)
    context = SerializationContext("orders", MessageField.VALUE)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("orders", avro({"id": 7, "city": "Zürich"}, context), key="k")
    producer.produce("orders", struct.pack(">BI", 0, 4711) + b"\xff", key="of an unknown schema")
    producer.flush(30)
    service = Service(node)
    found = service.get("/api/topics/orders/messages", start="earliest")["records"]
    by_key = {record["key"]["text"]: record["value"] for record in found}
    assert json.loads(by_key["k"]["text"]) == {"id": 7, "city": "Zürich"}
    assert by_key["k"]["schema"] == {"id": 1, "type": "AVRO"}
    assert by_key["of an unknown schema"]["encoding"] == "base64"
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    try:
        browser.open(f"http://{service.address}/#/topics/orders")
        browser.wait("document.body?.innerText.includes('Zürich')")
        browser.run("document.querySelectorAll('details.message').forEach(e => { e.open = true })")
        browser.wait("document.body.innerText.includes('Avro schema 1')")
        assert browser.problems == []
    finally:
        browser.close()
