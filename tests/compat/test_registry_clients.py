"""The schema registry of a running broker: confluent-kafka's serializers, many schemas, ACLs."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from tests.compat.registry_requests import LISTEN, ORDER, ask, url_of
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

MANY = 10_000


def test_serializers_of_confluent_kafka_understand_each_other(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("orders", MessageField.VALUE)
    json_schema = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
    pairs: list[tuple[Any, Any, Any]] = [
        (AvroSerializer(client, ORDER), AvroDeserializer(client), {"id": 7}),
        (
            JSONSerializer(json_schema, client),
            JSONDeserializer(json_schema, schema_registry_client=client),
            {"id": 7},
        ),
        (
            ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False}),
            ProtobufDeserializer(Timestamp, {"use.deprecated.format": False}),
            Timestamp(seconds=7),
        ),
    ]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, (serializer, _, value) in enumerate(pairs):
        of_topic = SerializationContext(f"{context.topic}-{number}", MessageField.VALUE)
        producer.produce(f"orders-{number}", serializer(value, of_topic))
    assert producer.flush(120) == 0
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([f"orders-{number}" for number in range(3)])
    found: dict[str | None, bytes | None] = {}
    while len(found) < 3:
        (message,) = consumer.consume(1, 30)
        found[message.topic()] = message.value()
    consumer.close()
    for number, (_, deserializer, value) in enumerate(pairs):
        assert deserializer(found[f"orders-{number}"], context) == value
    assert client.get_subjects() == [f"orders-{number}-value" for number in range(3)]
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("orders-0-value", Schema('"int"', "AVRO"))
    assert refused.value.http_status_code == 409


def test_a_protobuf_schema_imports_files_that_the_serializer_does_not_register(
    broker_factory: BrokerFactory,
) -> None:
    """It knows them, and sends no references to them."""
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency[:] = ["google/type/money.proto", "confluent/type/decimal.proto"]
    message = file.message_type.add(name="Order")
    for number, kind in enumerate((".google.type.Money", ".confluent.type.Decimal"), 1):
        message.field.add(name=f"f{number}", number=number, type=11, label=1, type_name=kind)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    order_type: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    order = order_type(f1={"currency_code": "EUR", "units": 7}, f2={"value": b"\x07", "scale": 2})
    serialize = ProtobufSerializer(order_type, client, {"use.deprecated.format": False})
    context = SerializationContext("orders", MessageField.VALUE)
    data = serialize(order, context)
    assert data is not None
    assert ProtobufDeserializer(order_type, {"use.deprecated.format": False})(data, context) == order
    assert client.get_subjects() == ["orders-value"]
    assert client.get_latest_version("orders-value").schema.references in (None, [])


def http_mib(broker: KBroker) -> int:
    """Resident memory of the process that answers."""
    return int(broker.children()["kbroker: http"].memory_info().rss) >> 20


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_schemas_are_there_after_a_restart(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(LISTEN)
    client = SchemaRegistryClient({"url": url_of(broker)})
    before, began = http_mib(broker), time.monotonic()
    ids = [
        client.register_schema(
            f"subject-{number % 500}", Schema(ORDER.replace("Order", f"Order{number}"), "AVRO")
        )
        for number in range(500)
    ]
    ask(f"{url_of(broker)}/config", {"compatibility": "NONE"}, method="PUT")
    for number in range(500, MANY):
        schema = Schema(ORDER.replace("Order", f"Order{number}"), "AVRO")
        ids.append(client.register_schema(f"subject-{number % 500}", schema))
    assert ids == list(range(1, MANY + 1))
    print(
        f"{MANY} registered in {time.monotonic() - began:.0f} s; http: {before} MiB, {http_mib(broker)} MiB"
    )
    broker.kill9()
    broker.start()
    url = url_of(broker)
    before, began = http_mib(broker), time.monotonic()
    assert ask(f"{url}/schemas/ids/1")[0] == 200
    print(f"the first answer after a restart took {time.monotonic() - began:.2f} s")
    assert len(ask(f"{url}/schemas")[1]) == MANY
    print(f"then http: {before} MiB, with all of them {http_mib(broker)} MiB")
    assert ask(f"{url}/schemas/ids/{MANY}")[1]["schema"] == ORDER.replace("Order", f"Order{MANY - 1}")
    assert SchemaRegistryClient({"url": url}).register_schema("next", Schema('"int"', "AVRO")) == MANY + 1


def test_the_topic_is_compacted_and_of_one_partition(broker_factory: BrokerFactory) -> None:
    from kbroker.cli.config_changes import read_configs
    from kbroker.cli.connection import Connection

    broker = broker_factory(LISTEN)
    assert ask(f"{url_of(broker)}/subjects") == (200, [])
    SchemaRegistryClient({"url": url_of(broker)}).register_schema("one", Schema('"int"', "AVRO"))
    connection = Connection(broker.bootstrap, {}, 30)
    assert len(connection.admin().list_topics(timeout=30).topics["_schemas"].partitions) == 1
    settings = {row["name"]: row["value"] for row in read_configs(connection, "topic", "_schemas")}
    assert settings["cleanup.policy"] == "compact"


def sasl_settings() -> dict[str, str]:
    """A SASL listener, an authorizer, and the user admin."""
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="a";'
    return {
        **LISTEN,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="admin" password="a" user_admin="a";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": jaas,
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }


def create_users_with_rights(bootstrap: str) -> None:
    """writer may do everything to `_schemas`, reader may read it, the user nobody may do
    nothing."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "a",
        }
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    users = [UserScramCredentialUpsertion(name, info, b"secret") for name in ("writer", "reader", "nobody")]
    for future in admin.alter_user_scram_credentials(users).values():
        future.result(120)
    rights = [("writer", AclOperation.ALL), ("reader", AclOperation.READ)]
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            "_schemas",
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for user, operation in rights
    ]
    for future in admin.create_acls(acls).values():
        future.result(120)


def test_the_broker_decides_who_may_read_and_register(broker_factory: BrokerFactory) -> None:
    """Users of a SASL listener; ACLs of the topic `_schemas`."""
    broker = broker_factory(sasl_settings())
    create_users_with_rights(broker.bootstrap)
    url = url_of(broker)
    versions = f"{url}/subjects/one/versions"
    body = {"schema": '"string"'}
    assert ask(f"{url}/subjects")[0] == 401
    assert ask(f"{url}/subjects", login="writer:wrong")[0] == 401
    assert ask(versions, body, "writer:secret") == (200, {"id": 1})
    assert ask(versions, login="reader:secret") == (200, [1])
    other = {"schema": '["null","string"]'}
    assert ask(versions, other, "reader:secret")[1]["error_code"] == 40301
    assert ask(versions, login="nobody:secret")[1]["error_code"] == 40301
    assert ask(versions, login="writer:secret") == (200, [1])
