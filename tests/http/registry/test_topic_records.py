"""Keys and values byte for byte as Confluent's registry writes them: compaction compares keys as
bytes."""

import json
from typing import Any

import pytest

from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import LAST_IDS_KEY, SchemaRow, config_key, delete_key, mode_key
from tests.http.registry.desk import Desk, record

CONFLUENT = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":1,"md5":"x","schema":"\\"string\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"pb","version":1,"magic":1}',
        b'{"subject":"pb","version":1,"id":2,"schemaType":"PROTOBUF","schema":"message A {}","deleted":false}',
    ),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (b'{"keytype":"MODE","subject":"pb","magic":0}', b'{"mode":"READONLY"}'),
    (
        b'{"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","version":1}',
    ),
    (b'{"keytype":"CLEAR_SUBJECT","subject":"x","magic":0}', b'{"subject":"x"}'),
    (b"not json", b"{"),
    (b'{"keytype":"SCHEMA"}', b"{}"),
]


def test_records_of_confluents_registry_are_read() -> None:
    desk = Desk(CONFLUENT)
    assert desk("GET", "/subjects") == (200, ["pb"])
    assert desk("GET", "/subjects?deleted=true") == (200, ["orders-value", "pb"])
    assert desk("GET", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert desk("GET", "/mode/pb") == (200, {"mode": "READONLY"})
    assert desk("GET", "/schemas/ids/2")[1]["schemaType"] == "PROTOBUF"
    assert desk.register("next", '"int"') == 3


def test_records_are_written_as_confluents_registry_writes_them() -> None:
    desk = Desk()
    desk.register("orders-value", '"string"')
    desk.register("json", '{"type": "object"}', schemaType="JSON")
    assert desk.topic.rows == [
        (
            b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
            b'{"subject":"orders-value","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
        ),
        (
            b'{"keytype":"SCHEMA","subject":"json","version":1,"magic":1}',
            b'{"subject":"json","version":1,"id":2,"schemaType":"JSON","schema":"{\\"type\\":\\"object\\"}","deleted":false}',
        ),
    ]
    assert config_key(None) == CONFLUENT[3][0]
    assert mode_key("pb") == CONFLUENT[4][0]
    assert delete_key("orders-value") == CONFLUENT[5][0]


def test_members_that_only_others_understand_stay() -> None:
    rules = {"domainRules": [{"name": "x", "kind": "CONDITION"}]}
    desk = Desk()
    number = desk.register("one", record("id"), ruleSet=rules, metadata={"owner": "me"})
    found = desk.again()("GET", f"/schemas/ids/{number}")[1]
    assert found["ruleSet"] == rules
    assert found["metadata"] == {"owner": "me"}
    assert desk.register("one", record("id")) == number  # without any it has those of the latest version
    assert desk.register("one", record("id"), ruleSet={}) == number + 1  # other rules are another schema


@pytest.mark.parametrize("place", ["key", "version", "id", "deletion"])
def test_an_infinite_number_changes_nothing(place: str) -> None:
    """Python's JSON has it, and its int fails on it in a way of its own."""
    state = State()
    infinite = b"1e999"
    keys = {
        "key": b'{"keytype":"SCHEMA","subject":"s","version":1e999,"magic":1}',
        "deletion": b'{"keytype":"DELETE_SUBJECT","subject":"pb","magic":0}',
    }
    numbers = {"version": b"1", "id": b"1"} | {place: infinite}
    schema = b'{"subject":"s","version":%(version)b,"id":%(id)b,"schema":"\\"int\\"","deleted":false}' % {
        name.encode(): number for name, number in numbers.items()
    }
    usual = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    state.apply(*CONFLUENT[2])
    state.apply(keys.get(place, usual), b'{"version":1e999}' if place == "deletion" else schema)
    assert list(state.subjects) == ["pb"]


def test_a_permanently_deleted_schema_leaves_nothing() -> None:
    state = State()
    for key, value in CONFLUENT[:2]:
        state.apply(key, value)
    state.apply(CONFLUENT[1][0], None)
    assert not state.subjects
    assert not state.ids["."]
    assert state.last_ids["."] == 1  # its id is not given to another


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
def test_a_member_of_others_with_an_infinite_number_is_not_written_again(number: bytes) -> None:
    """Nor shown: no reader of JSON would take the answer."""
    schema = (
        b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false,"metadata":[%b]}' % number
    )
    desk = Desk([(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', schema)])
    assert desk("GET", "/subjects/s/versions/1")[0] == 404


def test_every_key_has_its_members_in_confluents_order() -> None:
    """Karapace takes the first other order that it reads for its own keys, whose removals then
    replace nothing that was written before."""
    orders = [list(json.loads(key)) for key, _ in CONFLUENT[:6]]
    desk = Desk()
    desk.register("one", '"string"')
    for path in ("/subjects/one", "/subjects/one?permanent=true"):
        desk("DELETE", path)
    written = [key for key, _ in desk.topic.rows]
    assert LAST_IDS_KEY in written
    assert [list(json.loads(key)) for key in written if list(json.loads(key)) not in orders] == []
    assert CONFLUENT[0][0] != LAST_IDS_KEY  # compaction keeps both


HALF = "\ud800"
"""Half of a surrogate pair: JSON can write it, UTF-8 cannot."""


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("AVRO", {"type": "record", "name": "Order", "doc": HALF, "fields": []}),
        ("JSON", {"title": HALF}),
        ("AVRO", "string"),
    ],
)
def test_half_of_a_surrogate_pair_is_kept_and_leaves_no_traceback(
    kind: str, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk, metadata = Desk(), {"properties": {"owner": HALF}}
    for text in (json.dumps(schema, ensure_ascii=False), json.dumps(schema)):
        number = desk.register("s", text, schemaType=kind, metadata=metadata)
        assert number == 1
        assert desk("PUT", "/config/s", {"compatibility": "NONE", "alias": HALF})[0] == 200
        for each in (desk, desk.again()):
            found = each("GET", "/subjects/s/versions/1")[1]
            assert found["metadata"] == metadata
            assert json.loads(found["schema"]) == schema
            assert each("GET", "/config/s")[1]["alias"] == HALF
            assert each("GET", "/schemas/ids/1/schema")[0] == 200
    assert not caplog.records


@pytest.mark.parametrize("schema", ['syntax = "proto3"; message A {}', "CgdhLnByb3RvIgMKAUE="])
@pytest.mark.parametrize("place", ["text", "name"])
def test_half_of_a_surrogate_pair_is_no_protobuf(
    schema: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a .proto file nor a descriptor can hold it, nor the name of a reference to one."""
    base = SchemaRow("base", 1, 1, 'syntax = "proto3"; message B {}', "PROTOBUF")
    text, name = (f"{schema} // {HALF}", "b.proto") if place == "text" else (schema, HALF)
    body = {
        "schema": text,
        "schemaType": "PROTOBUF",
        "references": [{"name": name, "subject": "base", "version": 1}],
    }
    answer = Desk([(base.key(), base.value())])("POST", "/subjects/s/versions", body)
    assert answer[1]["error_code"] == 42201
    assert not caplog.records
