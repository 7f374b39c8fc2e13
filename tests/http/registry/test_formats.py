"""What may follow what, by format: (older, newer, newer reads older's data, older reads
newer's)."""

import json
from typing import Any

import pytest

from kbroker.http.registry.formats import InvalidSchema, Parsed, parse

STRING: dict[str, Any] = {"type": "string"}
OPEN = {"type": "object", "properties": {"a": STRING}}
TWO = {"type": "object", "properties": {"a": STRING, "b": {"type": "integer"}}}
CLOSED, CLOSED_TWO = ({**one, "additionalProperties": False} for one in (OPEN, TWO))
TREE = {
    "$ref": "#/definitions/node",
    "definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
}


@pytest.mark.parametrize(
    ("older", "newer", "backward", "forward"),
    [
        (STRING, STRING, True, True),
        (OPEN, TWO, False, True),
        (CLOSED, CLOSED_TWO, True, False),
        (OPEN, CLOSED, False, True),
        (STRING, {"type": ["string", "null"]}, True, False),
        ({"type": "integer"}, {"type": "number"}, True, False),
        (STRING, {"type": "integer"}, False, False),
        (STRING, {"type": "string", "maxLength": 5}, False, True),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9}, True, False),
        ({"type": "number", "minimum": 5}, {"type": "number", "minimum": 1}, True, False),
        ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, True, False),
        (STRING, {"type": "string", "pattern": "^a"}, False, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, True, False),
        (STRING, {"type": "string", "enum": ["a"]}, False, True),
        (CLOSED, {**CLOSED, "required": ["a"]}, False, True),
        ({"type": "array", "items": STRING}, {"type": "array"}, True, False),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, False, True),
        (STRING, {"oneOf": [STRING, {"type": "null"}]}, True, False),
        ({"oneOf": [STRING, {"type": "null"}]}, {"oneOf": [STRING]}, False, True),
        ({"anyOf": [STRING]}, {"anyOf": [STRING, {"type": "boolean"}]}, True, False),
        (STRING, {"not": {"type": "null"}}, False, False),
        (TREE, TREE, True, True),
        (True, STRING, False, True),
        (OPEN, {**OPEN, "patternProperties": {"^x": STRING}}, False, True),
        ({"type": "object", "title": "x", "description": "y"}, {"type": "object", "default": {}}, True, True),
    ],
)
def test_json_schemas_that_may_follow(older: Any, newer: Any, backward: bool, forward: bool) -> None:
    before, after = (parse("JSON", json.dumps(one), {}) for one in (older, newer))
    assert (after.reads(before) == []) is backward
    assert (before.reads(after) == []) is forward


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"type":"x"}', '{"$ref":"#/none"}', '{"required":1}', "1", '{"$ref":"x"}']
)
def test_an_invalid_json_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse("JSON", text, {})


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": ["a"]},
        {"$schema": {}},
        {"pattern": "a{99999999999999999999}"},
        {"patternProperties": {"a{99999999999999999999}": True}},
        {"pattern": "("},
        {"$ref": "http://[/#"},
    ],
)
def test_an_odd_json_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        parse("JSON", json.dumps(schema), {})


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"prefixItems": [True]}, {"prefixItems": 5}),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, {"type": "object", "dependentRequired": 5}),
        ({"enum": [{"required": 5}], "$ref": "#/enum/0"}, {"enum": [{"required": 6}], "$ref": "#/enum/0"}),
        ({"multipleOf": 3}, {"enum": [{"multipleOf": 0}], "$ref": "#/enum/0"}),
        ({"maximum": 3, "$ref": "#/x"}, {"$ref": "#/x", "x": {"maximum": "y"}}),
    ],
)
def test_parts_that_are_no_schemas_are_compared_without_a_failure(older: Any, newer: Any) -> None:
    """Other drafts do not check them, nor does anything check what only a reference reaches."""
    draft = {"$schema": "http://json-schema.org/draft-04/schema#"}
    before, after = (parse("JSON", json.dumps({"x": {}} | draft | one), {}) for one in (older, newer))
    assert after.reads(before)


def test_long_enums_are_compared_in_linear_time() -> None:
    """10^9 comparisons would not end."""
    one, other = ([f"{start}{number}" for number in range(40_000)] for start in "ab")
    before, after = (parse("JSON", json.dumps({"enum": values}), {}) for values in (one, [*one, *other]))
    assert after.reads(before) == []
    assert "ENUM_ARRAY_NARROWED" in before.reads(after)[0]


@pytest.mark.parametrize(
    ("older", "newer", "allowed"),
    [
        ([1], [1.0, 2], True),
        ([1], [True], False),
        ([[{"a": 2.0}]], [[{"a": 2}]], True),
        ([0], [False], False),
    ],
)
def test_values_of_enums_are_equal_as_in_json_schema(older: Any, newer: Any, allowed: bool) -> None:
    before, after = (parse("JSON", json.dumps({"enum": values}), {}) for values in (older, newer))
    assert (after.reads(before) == []) is allowed


def test_wide_avro_unions_are_compared_up_to_a_bound() -> None:
    def union(name: str) -> Parsed:
        types = [{"type": "record", "name": f"{name}{number}", "fields": []} for number in range(400)]
        return parse("AVRO", json.dumps(types), {})

    assert union("a").reads(union("a")) == []
    assert "pairs of types" in union("a").reads(union("b"))[0]


@pytest.mark.parametrize(
    "level",
    [
        {"allOf": [{"$ref": "#/$defs/next"}, {"$ref": "#/$defs/next"}]},
        {"properties": {"x": {"$ref": "#/$defs/next"}, "y": {"$ref": "#/$defs/next"}}},
        {"not": {"$ref": "#/$defs/next"}, "properties": {"x": {"$ref": "#/$defs/next"}}},
    ],
)
def test_references_that_double_at_each_level_are_compared_up_to_a_bound(level: Any) -> None:
    """2^30 pairs; what is not decided is not allowed."""
    texts = [json.dumps(level).replace("next", f"a{number + 1}") for number in range(30)]
    levels = {f"a{number}": json.loads(text) for number, text in enumerate(texts)}

    def schema(last: str) -> Parsed:
        defined = levels | {"a30": {"type": last}}
        return parse("JSON", json.dumps({"$defs": defined, "$ref": "#/$defs/a0"}), {})

    assert schema("integer").reads(schema("string"))


def test_a_json_schema_refers_to_another_by_name() -> None:
    other = '{"$id":"http://x/item.json","type":"string"}'
    for name in ("item.json", "http://x/item.json"):
        found = parse("JSON", f'{{"properties":{{"a":{{"$ref":"{name}"}}}}}}', {"item.json": other})
        assert found.reads(found) == []
    wider = parse("JSON", '{"properties":{"a":{"type":["string","null"]}}}', {})
    assert wider.reads(found) == []
    assert found.reads(wider) != []


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ('{"type":"string"}', '"string"'),
        ('["null", "int"]', '["null","int"]'),
        (
            '{"name":"a.b.R","fields":[{"type":"a.b.E","doc":"","name":"e","default":"A"}],"type":"record","x":1}',
            None,
        ),
        (
            (
                '{"fields":[{"type":{"symbols":["A"],"namespace":"a.b","name":"E","type":"enum"},"name":"e"},'
                '{"name":"f","type":"a.b.E"}],"aliases":["Q"],"name":"a.b.R","doc":"d","type":"record","x":1}'
            ),
            (
                '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[{"name":"e","type":{"type":"enum",'
                '"name":"E","symbols":["A"]}},{"name":"f","type":"E"}],"x":1,"aliases":["Q"]}'
            ),
        ),
        (
            '{"type":"array","items":{"type":"long","logicalType":"timestamp-millis"}}',
            '{"type":"array","items":{"type":"long","logicalType":"timestamp-millis"}}',
        ),
        (
            '{"type":"enum","name":"E","symbols":["A"],"fields":[1]}',
            '{"type":"enum","name":"E","symbols":["A"]}',
        ),
        (
            '{"type":"fixed","name":"F","size":4,"fields":{"a":1}}',
            '{"type":"fixed","name":"F","size":4}',
        ),
    ],
)
def test_avro_is_kept_as_java_prints_it(given: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(InvalidSchema):
            parse("AVRO", given, {})
        return
    found = parse("AVRO", given, {}).canonical
    assert found == canonical
    assert parse("AVRO", found, {}).canonical == canonical


@pytest.mark.parametrize(
    "text", ["{", "1", "null", '{"type":"x"}', '{"type":"record","name":"X","fields":[5]}', "string"]
)
def test_an_invalid_avro_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse("AVRO", text, {})


def proto(body: str) -> str:
    return f'syntax = "proto3"; package p; {body}'


@pytest.mark.slow  # protoc is a process of its own
@pytest.mark.parametrize(
    ("older", "newer", "backward", "forward"),
    [
        ("message A { string x = 1; }", "message A { bytes y = 1; int32 z = 2; }", True, True),
        ("message A { string x = 1; }", "message A { int32 x = 1; }", False, False),
        ("message A { int32 x = 1; }", "message A { repeated int32 x = 1; }", False, False),
        ("message A {}", "message A {} message B {}", True, False),
        (
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            "message A { oneof o { int32 x = 1; } }",
            False,
            True,
        ),
        (
            "message A { int32 x = 1; int32 y = 2; }",
            "message A { oneof o { int32 x = 1; int32 y = 2; } }",
            False,
            True,
        ),
    ],
)
def test_protobuf_schemas_that_may_follow(older: str, newer: str, backward: bool, forward: bool) -> None:
    before, after = (parse("PROTOBUF", proto(one), {}) for one in (older, newer))
    assert (after.reads(before) == []) is backward
    assert (before.reads(after) == []) is forward


@pytest.mark.slow
def test_a_protobuf_reference_imports_googles_own() -> None:
    """Files that the schema itself does not import, and that import others of Google's."""
    other = (
        'syntax = "proto3"; package p; import "google/protobuf/type.proto"; '
        'import "google/protobuf/descriptor.proto"; '
        "extend google.protobuf.FileOptions { string at = 1088; } message Item { google.protobuf.Type type = 1; }"
    )
    text = 'syntax = "proto3"; import "item.proto"; message A { p.Item item = 1; }'
    found = parse("PROTOBUF", text, {"item.proto": other})
    encoded = parse("PROTOBUF", found.normalized(), {"item.proto": other})
    assert encoded.reads(found) == []


def test_protobuf_imports_references_and_googles_own() -> None:
    other = proto("message Item {}")
    imports = 'syntax = "proto3"; import "item.proto"; import "google/protobuf/timestamp.proto"; '
    text = imports + "message A { p.Item item = 1; google.protobuf.Timestamp at = 2; }"
    found = parse("PROTOBUF", text, {"item.proto": other})
    encoded = parse("PROTOBUF", found.normalized(), {"item.proto": other})
    assert encoded.reads(found) == []
    for bad, references in (
        (text, {}),
        (found.normalized(), {}),
        ("message", {}),
        (text, {"../x": other}),
    ):
        with pytest.raises(InvalidSchema):
            parse("PROTOBUF", bad, references)
