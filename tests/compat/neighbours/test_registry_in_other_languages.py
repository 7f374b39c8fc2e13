"""Registry clients of other languages register a schema, and understand the values of
confluent-kafka's serializers, which understand theirs."""

import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.compat.neighbours.building import CACHE, HERE, built, node_with, run
from tests.compat.neighbours.npm_versions import KAFKAJS_REGISTRY
from tests.compat.registry_requests import LISTEN, ORDER, ask, url_of
from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable
from tests.peer.java import has_compiler
from tests.peer.tools import java_command

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(580)]

JAVA = Path(__file__).parents[2] / "peer" / "programs" / "RegistryOrders.java"
ORDER_JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


def test_kafkajs_registry_client_and_confluent_kafka_read_each_other(broker_factory: BrokerFactory) -> None:
    node, modules = node_with(KAFKAJS_REGISTRY)
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("js", MessageField.VALUE)
    written = AvroSerializer(client, ORDER)({"id": 7}, context)
    assert written is not None
    command = [node, str(HERE / "kafkajs_registry.js"), url_of(broker), written.hex()]
    theirs, read = run(command, NODE_PATH=modules).split()
    assert read == "7"
    assert AvroDeserializer(client)(bytes.fromhex(theirs), context) == {"id": 8}
    assert client.get_versions("js-value") == [1]


def test_franz_go_registry_client_and_confluent_kafka_read_each_other(broker_factory: BrokerFactory) -> None:
    program = CACHE / "franz-registry"
    built(["go", "build", "-o", str(program), "."], HERE / "franz_registry")
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("go", MessageField.VALUE)
    written = JSONSerializer(ORDER_JSON, client)({"id": 7}, context)
    assert written is not None
    ask(f"{url_of(broker)}/subjects/go-key/versions", {"schema": '"string"'})
    theirs, read = run([str(program), url_of(broker), written.hex()]).split()
    assert read == "7"
    reader = JSONDeserializer(ORDER_JSON, schema_registry_client=client)
    assert reader(bytes.fromhex(theirs), context) == {"id": 8}
    assert client.get_versions("go-value") == [1]
    assert ask(f"{url_of(broker)}/subjects?deleted=true") == (200, ["go-value"])


@pytest.mark.kafka
def test_confluents_java_registry_client_and_confluent_kafka_read_each_other(
    broker_factory: BrokerFactory,
) -> None:
    try:
        command = java_command(str(JAVA), jars="registry-client")
    except PeerUnavailable as reason:
        pytest.skip(f"no registry client for Java: {reason}")
    if not has_compiler():
        pytest.skip("this Java has no compiler")
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("java", MessageField.VALUE)
    written = AvroSerializer(client, ORDER)({"id": 7}, context)
    assert written is not None
    theirs, read = run([*command, url_of(broker), written.hex()]).split()
    assert read == "7"
    assert AvroDeserializer(client)(bytes.fromhex(theirs), context) == {"id": 8}
    assert client.get_versions("java-value") == [1, 2, 3]
