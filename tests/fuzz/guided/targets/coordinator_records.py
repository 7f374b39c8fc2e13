"""Records of the coordinators' topics, of the metadata that Kafka left, of the consumer protocol
and of the topic of schemas."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

from kbroker.control.kraft import records as kr
from kbroker.control.metadata import kafka_metadata
from kbroker.http.registry.state import State
from kbroker.net.produce.registered_schemas import Registered
from kbroker.protocol.consumer_protocol import (
    assigned_topics,
    parse_assignment,
    parse_subscription,
    subscribed_topics,
)
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.record_types import decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Run, Target
from tests.net.produce import schema_records
from tests.protocol.random_messages import random_struct, versions

TABLES = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
PROTOCOL, METADATA, SCHEMAS = range(len(TABLES), len(TABLES) + 3)
"""Kinds of records beside those of TABLES."""


def _given(kind: int, key: bytes, value: bytes) -> None:
    """Raises ProtocolError."""
    if kind < len(TABLES):
        decode_record(TABLES[kind], key, value or None)
    elif kind == METADATA:
        found = kafka_metadata.parse(value)
        if found is not None:
            kafka_metadata.KafkaMetadata().replay(found)
    elif kind == SCHEMAS:
        Registered().apply(key, value)
        State().apply(key, value)
    else:
        assigned_topics(value)
        subscribed_topics([key, value])
        for parse in (parse_subscription, parse_assignment):
            try:
                parse(value)
            except ProtocolError:
                continue


def _prepare(_: Path) -> Run:
    def run(data: bytes) -> None:
        found = parts.split(data)
        kind, key, value = (*found, b"", b"", b"")[:3]
        try:
            _given(kind[0] % (SCHEMAS + 1) if kind else 0, key, value)
        except ProtocolError:
            pass

    return run


def _seeds(rng: random.Random) -> Iterable[bytes]:
    for kind, table in enumerate(TABLES):
        for key_class, value_class in table.values():
            key = encode_key(random_struct(key_class, 0, rng))
            for version in versions(value_class):
                yield parts.join(
                    (bytes((kind,)), key, encode_value(random_struct(value_class, version, rng), version))
                )
            yield parts.join((bytes((kind,)), key))
    for cls in kr.TYPES.values():
        for version in versions(cls):
            try:
                message = random_struct(cls, version, rng)
                yield parts.join((bytes((METADATA,)), b"", kr.framed(message)))
            except ProtocolError:
                continue
    for text, more in (
        (schema_records.ORDER, {}),
        ('{"title": "T", "type": "object"}', {"schemaType": "JSON"}),
        ("package p; /* message C */ message A { string x = 1; }", {"schemaType": "PROTOBUF"}),
        ("EgFwIgMKAUE=", {"schemaType": "PROTOBUF"}),
    ):
        found = json.loads(schema_records.value("s", 1, 7)) | {"schema": text} | more
        yield parts.join((bytes((SCHEMAS,)), schema_records.key("s", 1), json.dumps(found).encode()))
    for keytype in ("CONFIG", "MODE", "DELETE_SUBJECT", "NOOP"):
        key = json.dumps({"keytype": keytype, "subject": "s", "magic": 0}).encode()
        value = b'{"subject": "s", "version": 1, "mode": "READWRITE", "compatibilityLevel": "FULL"}'
        yield parts.join((bytes((SCHEMAS,)), key, value))
    subscription = b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\0\0\0\1\xff\xff"
    assignment = b"\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    yield parts.join((bytes((PROTOCOL,)), subscription, assignment))
    yield parts.join((bytes((PROTOCOL,)), assignment, subscription))


TARGETS = (
    Target(
        "coordinator-records",
        "records of the coordinators' topics, of Kafka's metadata, of the consumer protocol, of schemas",
        (
            "kbroker.protocol.record_types",
            "kbroker.protocol.generated",
            "kbroker.protocol.consumer_protocol",
            "kbroker.control.metadata.kafka_metadata",
            "kbroker.net.produce.registered_schemas",
            "kbroker.http.registry.state",
            "kbroker.http.registry.topic_records",
        ),
        _prepare,
        _seeds,
        parts.change,
    ),
)
