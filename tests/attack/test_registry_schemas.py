"""Hostile schemas for the registry of a running broker, whose processes are confined."""

import http.client
import json
import re

import pytest

from tests.attack.processes import until
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

DEEP = 20_000
MANY = 100_000
PROTOC = "kbroker: protoc"
REFUSED = {
    "deep avro": ("AVRO", '{"type":"array","items":' * DEEP + '"string"' + "}" * DEEP),
    "deep json": ("JSON", '{"properties":{"a":' * DEEP + "{}" + "}}" * DEEP),
    "deep protobuf": (
        "PROTOBUF",
        'syntax="proto3";' + "".join(f"message M{i} {{" for i in range(DEEP)) + "}" * DEEP,
    ),
    "deep option": ("PROTOBUF", 'syntax="proto3"; option (a) = ' + "{a:" * DEEP + "1" + "}" * DEEP + ";"),
    "very many fields": (
        "PROTOBUF",
        'syntax="proto3"; message M {' + "".join(f"int32 f{i} = {i + 20000};" for i in range(MANY)) + "}",
    ),
    "a file of the host": ("PROTOBUF", 'syntax="proto3"; import "/etc/passwd"; message M {}'),
    "a file as JSON": ("JSON", '{"$ref":"file:///etc/passwd"}'),
    "half a character": ("PROTOBUF", 'syntax="proto3"; message M {}\ud800'),
}


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory({"kbroker.schema.registry.listen": "127.0.0.1:0"})


def register(broker: KBroker, subject: str, kind: str, text: str, references: int = 0) -> int:
    """The status of the answer."""
    found = re.search(r"registry=http://127\.0\.0\.1:(\d+)", broker.logs(1 << 20))
    assert found is not None
    link = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=120)
    named = [{"name": f"x{number}", "subject": "first", "version": 1} for number in range(references)]
    body = json.dumps({"schema": text, "schemaType": kind, "references": named})
    link.request("POST", f"/subjects/{subject}/versions", body)
    status = link.getresponse().status
    link.close()
    return status


def test_hostile_schemas_are_refused(broker: KBroker) -> None:
    assert register(broker, "first", "PROTOBUF", 'syntax="proto3"; message M { int32 a = 1; }') == 200
    found = {name: register(broker, "bad", kind, text) for name, (kind, text) in REFUSED.items()}
    assert found == dict.fromkeys(REFUSED, 422)
    assert register(broker, "bad", "AVRO", '"string"', references=MANY) == 422
    backtracking = json.dumps({"patternProperties": {"(a+)+$": {}}, "properties": {"a" * 40 + "!": {}}})
    assert register(broker, "pattern", "JSON", backtracking) == 200
    assert "Traceback (most recent call last)" not in broker.logs(1 << 20)


def test_protoc_ends_with_the_process_that_uses_it(broker: KBroker) -> None:
    before = until(lambda: broker.children().get(PROTOC)).pid
    broker.kill9_child("http")
    until(lambda: (now := broker.children().get(PROTOC)) is not None and now.pid != before, 90)
    assert register(broker, "first", "PROTOBUF", 'syntax="proto3"; message M {}') == 200
