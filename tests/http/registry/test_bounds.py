"""Schemas that would keep the registry busy, or grow without a bound, are refused or answered in
time.

Each of these took minutes to hours, or memory without a bound. Times are of CPU, with room for a
slow host.
"""

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from kbroker.http import finite_json
from kbroker.http.registry import compatibility, registration, server
from kbroker.http.registry.formats import (
    MAX_CHARACTERS,
    MAX_REFERENCED,
    InvalidSchema,
    Parsed,
    json_diff,
    parse,
    protobuf_format,
)
from kbroker.http.registry.formats.avro_format import MAX_FIELDS
from kbroker.http.registry.formats.json_format import MAX_TYPES
from kbroker.http.registry.formats.json_values import value_text
from tests.callbacks import slowness
from tests.http.registry.desk import Desk, record

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
MANY = 30_000


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.thread_time()
    yield
    assert time.thread_time() - began < seconds * slowness()


def json_schema(schema: Any) -> Parsed:
    return parse("JSON", json.dumps(schema, separators=(",", ":")), {})


def mixed(count: int) -> list[Any]:
    return [f"a{number}" if number % 2 else number for number in range(count)]


@pytest.mark.parametrize("values", [mixed(MANY), [{"a": number} for number in range(MANY)]])
def test_an_enum_of_very_many_values_of_several_types_is_checked_in_linear_time(values: list[Any]) -> None:
    with within(10):
        json_schema({"$schema": DRAFT_4, "properties": {"a": {"enum": values}}})


@pytest.mark.parametrize("values", [[1, "a", 1.0], [{"a": 1}, 2, {"a": 1}], ["a", 1, "a"]])
def test_equal_values_of_an_enum_are_found_as_before(values: list[Any]) -> None:
    with pytest.raises(InvalidSchema):
        json_schema({"$schema": DRAFT_4, "enum": values})
    json_schema({"$schema": DRAFT_4, "enum": [1, True, "1", None, "a"]})
    json_schema({"enum": values})  # later drafts allow them


def test_texts_of_values_are_equal_for_equal_values_alone() -> None:
    values = [1, "1", True, None, "true", [1], {"a": 1}, {"a": [1.5]}]
    assert len({value_text(one) for one in values}) == len(values)
    assert value_text({"a": 1, "b": [2.0]}) == value_text({"b": [2], "a": 1.0})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": mixed(MANY)},
        {"type": [f"a{number}" for number in range(MANY)]},
        {"required": mixed(MANY)},
        {"properties": {"a": {"dependencies": {"b": mixed(MANY)}}}},
    ],
)
def test_long_lists_that_name_no_types_and_no_properties_are_refused(schema: Any) -> None:
    with within(10), pytest.raises(InvalidSchema, match="too long a list"):
        json_schema(schema)


def test_long_lists_of_names_are_taken() -> None:
    names = [f"a{number}" for number in range(MAX_TYPES * 10)]
    json_schema({"required": names, "dependencies": {"b": names}})
    for name in ("type", "required", "dependencies", "enum"):
        json_schema({"properties": {name: {"enum": names}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "ab" * 60_000}}},
        {"anyOf": [{"patternProperties": {f"{number}{'x' * 1000}": True}} for number in range(120)]},
    ],
)
def test_very_long_patterns_are_refused_before_they_are_compiled(schema: Any) -> None:
    with pytest.raises(InvalidSchema, match="the regular expressions are too long"), within(1):
        json_schema(schema)


def test_long_patterns_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps 512 of them, however long they are."""
    purged: list[bool] = []
    monkeypatch.setattr(re, "purge", lambda: purged.append(True))
    json_schema({"pattern": "^[a-z]+$", "patternProperties": {"^x": True}})
    assert purged == []
    json_schema({"items": [{"pattern": "ab" * 1000}]})
    with pytest.raises(InvalidSchema):
        json_schema({"pattern": "(" * 50 + "ab" * 1000})
    assert purged == [True, True]


def test_a_chain_of_references_is_compared_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step copies the keywords beside the reference."""
    links = {str(number): {"$ref": f"#/d/{number + 1}"} for number in range(10_000)}
    wide = {f"k{number}": 0 for number in range(50_000)}

    def schema(last: str) -> Parsed:
        return json_schema({"$ref": "#/d/0", "d": {**links, "10000": {"type": last}}, **wide})

    with within(20):
        assert schema("integer").reads(schema("string"))


def test_a_large_pair_that_references_repeat_is_compared_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_diff, "MAX_S", 0.5)

    def schema(last: str) -> Parsed:
        large = {"enum": [f"a{number}" for number in range(MANY)] + [last]}
        properties = {f"p{number}": {"$ref": "#/d/large"} for number in range(5000)}
        return json_schema({"properties": properties, "d": {"large": large}})

    older, newer = schema("a"), schema("b")
    with within(10):
        assert newer.reads(older)


def test_a_schema_and_its_references_have_a_bound() -> None:
    with pytest.raises(InvalidSchema, match="characters"):
        parse("JSON", json.dumps({"title": "a" * MAX_CHARACTERS}), {})
    part = json.dumps({"title": "a" * (MAX_REFERENCED // 4)})
    with pytest.raises(InvalidSchema, match="characters of references"):
        parse("JSON", "{}", {str(number): part for number in range(4)})


def test_an_avro_record_of_very_many_fields_is_refused() -> None:
    """The library compares each name with all before it."""
    fields = [f"f{number}" for number in range(MAX_FIELDS + 1)]
    with within(10), pytest.raises(InvalidSchema, match="fields"):
        parse("AVRO", json.dumps({"type": "array", "items": record(*fields)}), {})
    with within(30):
        parse("AVRO", json.dumps(record(*fields[:-1])), {})


def test_very_many_oneofs_are_compared_in_linear_time() -> None:
    def schema(grouped: bool) -> Parsed:
        file = FileDescriptorProto(name="schema.proto", syntax="proto3")
        message = file.message_type.add(name="M")
        for number in range(7000):  # protobuf's Python allows few more
            field = message.field.add(
                name=f"f{number}", number=number + 20_000, type=FieldDescriptorProto.TYPE_INT32, label=1
            )
            if grouped:
                message.oneof_decl.add(name=f"o{number}")
                field.oneof_index = number
        text = base64.b64encode(file.SerializeToString()).decode()
        return parse("PROTOBUF", text, {})

    older, newer = schema(False), schema(True)
    with within(10):
        assert newer.reads(older) == []


def test_fields_that_are_moved_to_one_oneof_are_found() -> None:
    def text(first: str, last: str) -> str:
        fields = "int32 a = 1; int32 b = 2; int32 c = 3;"
        return f'syntax="proto3"; message M {{ {first} {fields} {last} }}'

    older, newer = parse("PROTOBUF", text("", ""), {}), parse("PROTOBUF", text("oneof x {", "}"), {})
    assert "MULTIPLE_FIELDS_MOVED_TO_ONEOF" in newer.reads(older)[0]


@pytest.mark.slow  # protoc is a process of its own
def test_a_schema_whose_names_multiply_is_refused() -> None:
    """A descriptor has the whole name of a type at each of its fields: here 300 MB."""
    fields = "".join(f"M f{number} = {number};" for number in range(1, 5000))
    text = f'syntax="proto3"; message {"A" * 60_000} {{ message M {{}} {fields} }}'
    with pytest.raises(InvalidSchema):
        parse("PROTOBUF", text, {})
    parse("PROTOBUF", text.replace("A" * 60_000, "A"), {})


def descriptor(*imports: str) -> str:
    return base64.b64encode(
        FileDescriptorProto(name="schema.proto", dependency=imports, syntax="proto3").SerializeToString()
    ).decode()


def test_a_file_that_is_imported_again_and_again_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    whole = protobuf_format._compiled

    def counting(text: str, references: Any) -> FileDescriptorProto:
        compiled.append(text)
        return whole(text, references)

    monkeypatch.setattr(protobuf_format, "_compiled", counting)
    protobuf_format._well_known.cache_clear()
    for _ in range(2):
        try:
            parse("PROTOBUF", descriptor(*["google/protobuf/any.proto"] * 1000), {})
        except InvalidSchema:
            pass  # a file must not be imported twice
    assert len(compiled) == 1


def test_a_descriptor_imports_no_file_of_the_host(tmp_path: Path) -> None:
    outside = tmp_path / "outside.proto"
    outside.write_text('syntax = "proto3"; message Secret {}')
    for name in (str(outside), "/etc/passwd", "google/../google/protobuf/any.proto", "a" * 5000, "a\0b", ""):
        with pytest.raises(InvalidSchema, match="no reference for its import"):
            parse("PROTOBUF", descriptor(name), {})


def test_a_long_chain_of_references_is_refused_and_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    desk.register("s0", record("a", name="R0"))
    codes = []
    for number in range(1, 1200):
        body = {
            "schema": json.dumps(record("a", name=f"R{number}")),
            "references": [{"name": f"R{number - 1}", "subject": f"s{number - 1}", "version": 1}],
        }
        status, answer = desk("POST", f"/subjects/s{number}/versions", body)
        if status != 200:
            codes.append((status, answer["error_code"]))
            break
    assert codes == [(422, 42201)]
    assert number > compatibility.MAX_DEPTH // 2
    assert not caplog.records


def test_references_that_many_schemas_repeat_are_followed_up_to_a_bound() -> None:
    """Each of them again costs a step, also where all have one name: a million schemas took
    hours."""
    desk = Desk()
    desk.register("leaf", record("a", name="Leaf"))
    each = compatibility.MAX_FOLLOWED // 10
    leaves = [{"name": "Leaf", "subject": "leaf", "version": 1}] * each
    for number in range(10):
        desk.register(f"s{number}", record("a", name=f"R{number}"), references=leaves)
    upper = [{"name": f"R{number}", "subject": f"s{number}", "version": 1} for number in range(10)]
    body = {"schema": json.dumps(record("a", name="Top")), "references": upper}
    status, answer = desk("POST", "/subjects/top/versions", body)
    assert (status, answer["error_code"]) == (422, 42201)
    body["references"] = upper[:9]
    assert desk("POST", "/subjects/top/versions", body)[0] == 200


@pytest.mark.parametrize("value", [b"[]", b"{}", b"0", b'""'])
def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 MiB of them took 200 MB and more, of each of 64 connections at once."""
    body = b'{"schema":"[]","metadata":[' + b",".join([value] * (server.MAX_VALUES + 1)) + b"]}"
    monkeypatch.setattr(finite_json, "loads", lambda _: pytest.fail("it was parsed"))
    status, answer = Desk().registry.answer("POST", "/subjects/s/versions", "", body)
    assert (int(status), json.loads(answer)["error_code"]) == (422, 422)


def test_values_within_a_text_are_not_counted() -> None:
    """A schema is a text with brackets, commas, escaped quotes and backslashes."""
    many = record(*(f"f{number}" for number in range(2000)), name="Many")
    many["doc"] = '\\"[{,' * (server.MAX_VALUES // 2)
    assert Desk().register("s", many) == 1


@pytest.mark.parametrize("depth", [*range(850, 1000, 10)])
def test_a_body_that_is_nested_deeply_leaves_no_traceback(
    depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk()
    body = b'{"schema":"\\"string\\"","metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    status, _ = desk.registry.answer("POST", "/subjects/s/versions", "", body)
    assert int(status) in (200, 400, 422)
    assert not caplog.records


def test_a_look_up_with_normalization_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk("PUT", "/config", {"compatibility": "NONE"})
    for number in range(5):
        desk.register("s", {"title": f"t{number}"}, schemaType="JSON")
    body = {"schema": json.dumps({"title": "other"}), "schemaType": "JSON"}
    assert desk("POST", "/subjects/s?normalize=true", body)[1]["error_code"] == 40403
    monkeypatch.setattr(compatibility, "MAX_S", -1.0)
    assert desk("POST", "/subjects/s?normalize=true", body)[1]["error_code"] == 42201
    assert desk("POST", "/subjects/s", body)[1]["error_code"] == 40403


def test_parsed_schemas_are_kept_up_to_a_number_of_characters() -> None:
    """Each of these takes some twenty times its bytes."""
    for number in range(60):
        text = json.dumps({"const": [{}] * 50_000, "title": str(number)}, separators=(",", ":"))
        compatibility.parsed("JSON", text, ())
    kept = compatibility._PARSED
    assert kept._characters <= kept._max_characters
    assert kept._max_characters < 60 * 150_000


def test_contexts_are_refused_before_their_ids_no_longer_fit_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A context keeps its entry, so that its ids are not given again."""
    monkeypatch.setattr(registration, "MAX_CONTEXTS_BYTES", 200)
    desk = Desk()
    body, last = {"schema": '"string"'}, 0
    while desk("POST", f"/subjects/:.c{last}:s/versions", body)[0] == 200:
        for permanent in ("", "?permanent=true"):
            assert desk("DELETE", f"/subjects/:.c{last}:s{permanent}") == (200, [1])
        last += 1
    assert desk("POST", f"/subjects/:.c{last}:s/versions", body)[1]["error_code"] == 42205
    assert 5 < last < 40
    assert all(len(value or b"") < 300 for _, value in desk.topic.rows)
    assert desk.register(":.c0:s", '"int"') == 2  # a known one is as before
