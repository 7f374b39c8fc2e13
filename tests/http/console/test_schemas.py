"""Messages that serializers wrote with schemas of the broker's registry are read in the console."""

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.compat.registry_requests import LISTEN, url_of
from tests.conftest import _run
from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

Serialize = Callable[[dict[str, Any], SerializationContext], bytes | None]
ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"city","type":"string"}]}'
)
ORDER_JSON = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "city": {"type": "string"}},
    }
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker with a registry."""
    running = _run(KBroker(tmp_path_factory.mktemp("registry"), LISTEN))
    yield next(running)
    next(running, None)


def avro(client: SchemaRegistryClient) -> Serialize:
    return AvroSerializer(client, ORDER)


def json_schema(client: SchemaRegistryClient) -> Serialize:
    return JSONSerializer(ORDER_JSON, client)


def protobuf(client: SchemaRegistryClient) -> Serialize:
    """Of a message within the second one of its file, which imports a file of Google's."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    file.message_type.add(name="Basket")
    order = file.message_type.add(name="Shop").nested_type.add(name="Order")
    kind = FieldDescriptorProto
    order.field.add(name="id", number=1, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    order.field.add(name="city", number=2, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    order.field.add(
        name="at", number=3, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )  # fmt: skip
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    made: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Shop.Order"))
    serialize = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    return lambda value, context: serialize(made(**value), context)


def write(node: KBroker, serialize: Serialize, topic: str, city: str) -> None:
    """A record whose key and value are orders."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    key, value = (
        serialize({"id": 7, "city": city}, SerializationContext(topic, part))
        for part in (MessageField.KEY, MessageField.VALUE)
    )
    producer.produce(topic, value, key=key)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("made", "kind", "shown"),
    [(avro, "AVRO", "Avro"), (protobuf, "PROTOBUF", "Protobuf"), (json_schema, "JSON", "JSON")],
)
def test_a_message_is_shown_as_json_with_its_schema(
    page: Page, node: KBroker, made: Callable[[SchemaRegistryClient], Serialize], kind: str, shown: str
) -> None:
    topic, client = f"orders-{shown}", SchemaRegistryClient({"url": url_of(node)})
    serialize = made(client)
    write(node, serialize, topic, "Zürich")
    schema = client.get_latest_version(f"{topic}-value")
    assert (schema.schema.schema_type, schema.subject) == (kind, f"{topic}-value")
    (record,) = Service(node).get(f"/api/topics/{topic}/messages", start="earliest")["records"]
    for part in ("key", "value"):
        assert json.loads(record[part]["text"]) == {"id": 7, "city": "Zürich"}
        assert record[part]["schema"] == {"id": schema.schema_id, "type": kind}
    page.show(f"topics/{topic}")
    page.sees("Zürich")
    page.browser.run("document.querySelector('details.message').open = true")
    page.browser.wait("document.querySelectorAll('.message .body pre .j-key').length === 4")
    titles = page.browser.run("[...document.querySelectorAll('.message .body h2')].map(e => e.textContent)")
    assert [title.partition(" · ")[0] for title in titles] == ["Key", "Value"]
    assert all(title.endswith(f", {shown} schema {schema.schema_id}") for title in titles), titles
    texts = page.browser.run("[...document.querySelectorAll('.message .body pre')].map(e => e.textContent)")
    assert [json.loads(text) for text in texts] == [{"id": 7, "city": "Zürich"}] * 2
    page.click("Live tail")
    page.sees("live")
    write(node, serialize, topic, "Genève")
    page.sees('{"id": 7, "city": "Genève"}')


def test_a_value_of_an_unknown_schema_stays_binary(page: Page, node: KBroker) -> None:
    data = struct.pack(">BI", 0, 4711) + b"\xff"
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("unknown", data, key="k")
    assert producer.flush(30) == 0
    (record,) = Service(node).get("/api/topics/unknown/messages", start="earliest")["records"]
    assert record["value"]["encoding"] == "base64"
    assert record["value"]["schema"] is None
    page.show("topics/unknown")
    page.sees(f"{len(data)} B binary")
