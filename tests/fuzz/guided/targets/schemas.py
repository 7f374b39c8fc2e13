"""The schema registry: requests one after the other, and data of schemas."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.http.registry.answers import TABLE
from kbroker.http.registry.decoder import SchemaDecoder
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Mix, Run, Target
from tests.http.registry.desk import Desk, record

METHODS = ("GET", "POST", "PUT", "DELETE")
DATA = b"DATA"
"""The first line of a part that is data of a schema."""
MAX_REQUESTS = 8
DRAFT = "http://json-schema.org/draft-07/schema#"
PROTO = 'syntax = "proto3"; message A { int32 a = 1; repeated B b = 2; } message B { map<string, A> c = 1; }'
AVRO: tuple[Any, ...] = (
    record("id", {"name": "note", "type": ["null", "string"], "default": None}),
    record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}}),
    record({"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}, "aliases": ["g"]}),
    record({"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "Order"}}}),
    record({"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}),
    ["null", "string", {"type": "int", "logicalType": "date"}],
    "double",
)
JSON: tuple[Any, ...] = (
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]},
    {"type": "array", "items": [{"type": "integer"}], "additionalItems": False, "minItems": 1},
    {"oneOf": [{"type": "number", "minimum": 1, "multipleOf": 2}, {"enum": ["a", 1, None]}]},
    {"$ref": "#/definitions/n", "definitions": {"n": {"properties": {"next": {"$ref": "#/definitions/n"}}}}},
    {"type": "object", "patternProperties": {"^x": {"const": 1}}, "additionalProperties": {"not": {}}},
    {"if": {"type": "string"}, "then": {"pattern": "a+"}, "else": True, "$schema": DRAFT},
    {"allOf": [{"type": ["string", "null"]}], "anyOf": [True, {"dependencies": {"a": ["b"]}}]},
)


def _prepare(_: Path) -> Run:
    return _given


def _given(data: bytes) -> None:
    desk = Desk()
    decoder: Any = SchemaDecoder(desk.topic).answer(SimpleNamespace())  # type: ignore[arg-type]
    for part in parts.split(data)[:MAX_REQUESTS]:
        line, _, body = part.partition(b"\n")
        if line == DATA:
            decoder(body, 1000)
            continue
        method, _, path = line.decode("latin-1").partition(" ")
        status, answer = desk.registry.answer(method, path, "", body)
        assert int(status) < 500 or int(status) == 503, answer
        if answer:
            json.loads(answer)
    again = desk.again()
    assert again.topic.state.subjects == desk.topic.state.subjects, "read again, the topic has other schemas"


def _post(path: str, schema: Any, **more: Any) -> bytes:
    text = schema if isinstance(schema, str) and more.get("schemaType") == "PROTOBUF" else json.dumps(schema)
    return f"POST {path}\n".encode() + json.dumps({"schema": text, **more}).encode()


def _seeds(_: random.Random) -> Iterable[bytes]:
    for kind, texts in (("AVRO", AVRO), ("JSON", JSON)):
        for older, newer in zip(texts, texts[1:] + texts[:1], strict=True):
            posts = [_post("/subjects/s/versions", one, schemaType=kind) for one in (older, newer)]
            tried = _post("/compatibility/subjects/s/versions/latest?verbose=true", newer, schemaType=kind)
            yield parts.join([posts[0], tried, DATA + b"\n\0\0\0\0\1\2\4ab"])
            yield parts.join([b'PUT /config\n{"compatibility": "NONE"}', *posts, b"GET /schemas"])
    yield parts.join(
        [_post("/subjects/p/versions", PROTO, schemaType="PROTOBUF"), DATA + b"\n\0\0\0\0\1\0\x08\1"]
    )
    for method, path, _answer in TABLE:
        for part, value in (("{subject}", "s"), ("{version}", "1"), ("{id}", "1")):
            path = path.replace(part, value)
        first = _post("/subjects/s/versions", AVRO[0])
        yield parts.join([first, f"{method} {path}?deleted=true&subject=s&limit=5\n".encode() + b"{}"])
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "a"}
    more = {
        "ruleSet": {"domainRules": [rule]},
        "metadata": {"properties": {"a": "b"}, "tags": {"t": ["x"]}, "sensitive": ["s"]},
    }
    described = _post("/subjects/s/versions?normalize=true", AVRO[0], **more)
    yield parts.join([described, b"GET /subjects/s/metadata?key=a&value=b"])
    named = {"references": [{"name": "Order", "subject": "s", "version": 1}]}
    using = _post("/subjects/:.c:t/versions", ["Order", "null"], **named)
    yield parts.join([_post("/subjects/s/versions", AVRO[0]), using])
    imported = _post("/subjects/s/versions", AVRO[1], id=7, version=3)
    removals = [b"DELETE /subjects/s", b"DELETE /subjects/s?permanent=true"]
    yield parts.join([b'PUT /mode/s\n{"mode": "IMPORT"}', imported, *removals])


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Often the schema inside of a body is changed, and the body stays JSON."""

    def part(given: bytes) -> bytes:
        line, _, body = given.partition(b"\n")
        if rng.random() < 0.25 or not body:
            return mix(given)
        try:
            found = json.loads(body)
            text = found["schema"].encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            return line + b"\n" + mix(body)
        found["schema"] = _changed_json(text, rng, mix).decode("utf-8", "replace")
        return line + b"\n" + json.dumps(found).encode()

    return parts.change(data, rng, part)


def _changed_json(text: bytes, rng: random.Random, mix: Mix) -> bytes:
    """A value of the schema is exchanged by another of its values, or bytes are changed."""
    if rng.random() < 0.4:
        return mix(text)
    try:
        schema = json.loads(text)
    except ValueError:
        return mix(text)
    places = list(_places(schema))
    if len(places) < 2:
        return mix(text)
    (holder, key), (other, where) = rng.choice(places), rng.choice(places)
    values: tuple[Any, ...] = (
        other[where],
        [other[where]],
        None,
        0,
        -1,
        1e300,
        "",
        [],
        {},
        True,
        "string",
        "Order",
    )
    holder[key] = rng.choice(values)
    try:
        return json.dumps(schema).encode()
    except (ValueError, RecursionError):  # a part of it holds itself now
        return mix(text)


def _places(value: Any) -> Iterable[tuple[Any, Any]]:
    """Each member of a JSON value as (holder, key)."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, member in list(items):
        yield value, key
        yield from _places(member)


TARGETS = (
    Target(
        "schemas",
        "requests to the schema registry: Avro, JSON Schema and Protobuf, compatibility, data of schemas",
        ("kbroker.http.registry.", "kbroker.http.finite_json"),
        _prepare,
        _seeds,
        _change,
        cpu_s=10,
    ),
)
