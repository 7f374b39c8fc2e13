"""`consume --registry`: what serializers wrote with a schema is shown as JSON."""

import json
import math
import struct
import sys
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from kbroker.cli.decoding import Decoder, decoder_of
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.record_format import ConsumedRecord, to_json
from kbroker.cli.schema_source import Schema, SchemaSource
from tests.cli.conftest import Shell
from tests.compat.registry_requests import LISTEN, url_of
from tests.conftest import BrokerFactory

PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; import "place.proto";
message Order { message Line { string item = 1; } int64 id = 1; repeated Line line = 2;
  google.protobuf.Timestamp at = 3; Place place = 4; }
message Other { string name = 1; }"""
PLACE = 'syntax = "proto3"; package shop; message Place { string city = 1; }'
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "raw", "type": "bytes"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)
AVRO_BYTES = b"\x0e" + b"\x04\x00\xff" + b"\x02\x04hi" + b"\x00"


class Known(SchemaSource):
    """A registry of one schema with id 7."""

    def __init__(self, schema: Schema) -> None:
        self.one = schema
        self.lookups = 0

    def schema(self, schema_id: int) -> Schema:
        self.lookups += 1
        if schema_id != 7:
            raise CommandFailed("no such schema")
        return self.one


def record(value: bytes | None, key: bytes | None = None) -> ConsumedRecord:
    return ConsumedRecord("orders", 1, 42, 0, key, value, ())


def framed(data: bytes, schema_id: int = 7) -> bytes:
    return struct.pack(">BI", 0, schema_id) + data


def test_avro_is_a_document_within_the_document() -> None:
    source = Known(Schema("AVRO", ORDER, {}))
    decoder = Decoder(source, keys=False)
    for _ in range(3):
        shown = json.loads(to_json(decoder(record(framed(AVRO_BYTES), framed(AVRO_BYTES)))))
        assert shown["value"] == {"id": 7, "raw": "\x00\xff", "note": "hi", "at": "1970-01-01T00:00:00+00:00"}
    assert "key_base64" in shown
    assert source.lookups == 1


def test_numbers_that_json_lacks_are_texts() -> None:
    items = {"type": "array", "items": "float"}
    fields = [{"name": "mean", "type": "double"}, {"name": "all", "type": items}]
    schema = Schema("AVRO", json.dumps({"type": "record", "name": "Readings", "fields": fields}), {})
    data = struct.pack("<d", math.nan) + b"\x04" + struct.pack("<ff", -math.inf, 1.5) + b"\x00"

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    line = to_json(Decoder(Known(schema), keys=False)(record(framed(data))))
    assert json.loads(line, parse_constant=refuse)["value"] == {"mean": "NaN", "all": ["-Infinity", 1.5]}


def test_protobuf_finds_its_message_and_imports() -> None:
    decode = decoder_of(Schema("PROTOBUF", PROTO, {"place.proto": PLACE}))
    whole = b"\x08\x05" + b"\x12\x03\x0a\x01a" + b"\x1a\x02\x08\x07" + b"\x22\x03\x0a\x01b"
    at = "1970-01-01T00:00:07Z"
    assert decode(b"\x00" + whole) == {"id": "5", "line": [{"item": "a"}], "at": at, "place": {"city": "b"}}
    assert decode(b"\x02\x02" + b"\x0a\x01z") == {"name": "z"}
    assert decode(b"\x04\x00\x00" + b"\x0a\x01z") == {"item": "z"}


@pytest.mark.parametrize(
    "start", [b"", b"\x80", b"\x01", b"\x02\x63", b"\xff\xff\xff\xff\xff\x01", b"\x02\x01"]
)
def test_wrong_message_indexes_are_reported_with_their_place(start: bytes) -> None:
    decoder = Decoder(Known(Schema("PROTOBUF", PLACE, {})), keys=False)
    with pytest.raises(CommandFailed, match="orders-1 offset 42: value does not match schema 7"):
        decoder(record(framed(start)))


@pytest.mark.parametrize("data", [b"", b"\x0e", b"\x0e\x7f", b"\x0e\x04\x00\xff\x08"])
def test_cut_data_is_reported(data: bytes) -> None:
    with pytest.raises(CommandFailed, match="value does not match schema 7"):
        Decoder(Known(Schema("AVRO", ORDER, {})), keys=False)(record(framed(data)))


def test_a_value_without_a_schema_stays_as_it_is() -> None:
    decoder = Decoder(Known(Schema("AVRO", ORDER, {})), keys=True)
    assert decoder(record(b"plain", None)) == record(b"plain", None)
    assert decoder(record(None, b"\x00")) == record(None, b"\x00")
    assert decoder.undecoded == 2


def test_a_schema_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match="orders-1 offset 42: value: no such schema"):
        Decoder(Known(Schema("AVRO", ORDER, {})), keys=False)(record(framed(b"", 8)))
    with pytest.raises(CommandFailed, match="THRIFT"):
        decoder_of(Schema("THRIFT", "", {}))


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "avro.io", None)
    monkeypatch.delitem(sys.modules, "kbroker.http.registry.formats.avro_reader", raising=False)
    with pytest.raises(UsageFailed, match=r"pip install 'kbroker\[registry\]'"):
        decoder_of(Schema("AVRO", ORDER, {}))


@pytest.mark.compat
def test_values_of_serializers_are_shown(shell: Shell, broker_factory: BrokerFactory) -> None:
    node = broker_factory(LISTEN)
    url = url_of(node)
    client = SchemaRegistryClient({"url": url})
    client.register_schema("city", Registered('{"type":"record","name":"City","fields":[]}', "AVRO"))
    fields = '[{"name":"id","type":"long"},{"name":"city","type":"City"}]'
    referring = Registered(
        f'{{"type":"record","name":"Order","fields":{fields}}}',
        "AVRO",
        [SchemaReference("City", "city", 1)],  # type: ignore[arg-type] # a number to the registry
    )
    json_schema = json.dumps({"title": "Order", "type": "object"})
    pairs: list[tuple[Any, Any, Any]] = [
        (AvroSerializer(client, referring), {"id": 7, "city": {}}, {"id": 7, "city": {}}),
        (JSONSerializer(json_schema, client), {"id": 8}, {"id": 8}),
        (
            ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False}),
            Timestamp(seconds=7),
            "1970-01-01T00:00:07Z",
        ),
    ]
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number, (serializer, value, _) in enumerate(pairs):
        context = SerializationContext(f"orders-{number}", MessageField.VALUE)
        producer.produce(context.topic, serializer(value, context))
    producer.produce("orders-0", "plain")
    assert producer.flush(120) == 0
    read = ("--registry", url, "-e", "-b", node.bootstrap)
    for number, (_, _, shown) in enumerate(pairs):
        lines = shell("consume", f"orders-{number}", "-n", 1, *read).lines
        assert json.loads(lines[0]) == shown
    everything = shell("consume", "orders-0", "--json", *read)
    assert [json.loads(line)["value"] for line in everything.lines] == [pairs[0][2], "plain"]
    assert "1 without a schema id" in everything.stderr
    wrong = ("consume", "orders-0", "-e", "-b", node.bootstrap, "--registry")
    assert "does not answer" in shell(*wrong, "http://127.0.0.1:1", code=3).stderr
    producer.produce("orders-9", framed(b"", 999))
    producer.flush(30)
    assert "answers 404" in shell("consume", "orders-9", "-e", *read[:2], "-b", node.bootstrap, code=1).stderr
