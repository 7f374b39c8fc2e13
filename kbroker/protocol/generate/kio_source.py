"""Reads the message classes of the kio package (one class per version) and merges them into shapes.

kio gives durations and times as Python objects and drops their unit from the name; here they are
the plain integers of the wire again and carry Kafka's names.
"""

import dataclasses
import datetime
import importlib
import inspect
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from kbroker.protocol.generate.overrides import OVERRIDES, kafka_name
from kbroker.protocol.generate.shapes import FieldShape, MessageShape, StructShape, implicit_default

DATA_MESSAGES = (
    "request_header",
    "response_header",
    "consumer_protocol_subscription",
    "consumer_protocol_assignment",
    "end_txn_marker",
    "control_record_type_schema",
    "leader_change_message",
)
WIRE = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
Seen = dict[str, dict[int, list[FieldShape]]]


def _split(annotation: Any) -> tuple[Any, bool, bool]:
    """The innermost type, whether an array of it, whether null is allowed."""
    nullable = False
    if isinstance(annotation, types.UnionType):
        (annotation,) = [a for a in typing.get_args(annotation) if a is not type(None)]
        nullable = True
    if typing.get_origin(annotation) is tuple:
        inner, _, inner_nullable = _split(typing.get_args(annotation)[0])
        del inner_nullable  # kio marks every uuid as optional; null elements do not exist
        return inner, True, nullable
    return annotation, False, nullable


def _name(message: str, name: str, kafka_type: str) -> str:
    if kafka_type.startswith("timedelta") and not name.endswith("_ms"):
        return name + "_ms"
    return kafka_name(message, name)


def _default(raw: Any, type_: str, nullable: bool) -> object:
    if raw is dataclasses.MISSING:
        return implicit_default(type_, nullable)
    if dataclasses.is_dataclass(raw):
        return "new"
    if isinstance(raw, datetime.timedelta):
        return raw // MILLISECOND
    if isinstance(raw, datetime.datetime):
        return (raw - EPOCH) // MILLISECOND
    if isinstance(raw, UUID):
        return raw.bytes
    if raw is None and type_ == "uuid":
        return bytes(16)
    if raw is None and type_ == "int64":
        return -1  # a time that is not set
    if isinstance(raw, bool):
        return bool(raw)
    if isinstance(raw, int):
        return int(raw)
    if isinstance(raw, (bytes, bytearray)):
        return bytes(raw)
    return str(raw) if isinstance(raw, str) else raw


def _field(message: str, struct: str, raw: "dataclasses.Field[Any]", version: int, seen: Seen) -> FieldShape:
    inner, is_array, nullable = _split(raw.type)
    kafka_type = raw.metadata.get("kafka_type", "")
    if dataclasses.is_dataclass(inner):
        assert isinstance(inner, type)
        _collect(message, inner, version, seen)
        element = inner.__name__
    else:
        element = WIRE.get(kafka_type, kafka_type)
    if element in ("uuid", "int64") and not is_array:
        nullable = False
    type_ = "[]" + element if is_array else element
    span = (version, version)
    tag = raw.metadata.get("tag")
    return FieldShape(
        _name(message, raw.name, kafka_type),
        type_,
        span,
        _default(raw.default, type_, nullable),
        span if nullable else None,
        tag,
        span if tag is not None else None,
        legacy=struct == "RequestHeader" and raw.name == "client_id",
    )


def _collect(message: str, entity: type[Any], version: int, seen: Seen) -> None:
    fields = [_field(message, entity.__name__, f, version, seen) for f in dataclasses.fields(entity)]
    seen.setdefault(entity.__name__, {})[version] = fields


def _merge_order(per_version: dict[int, list[FieldShape]]) -> list[str]:
    """One order of names that every version's wire order agrees with."""
    order: list[str] = []
    for version in sorted(per_version, reverse=True):
        at = 0
        for field in per_version[version]:
            if field.name in order:
                at = order.index(field.name) + 1
            else:
                order.insert(at, field.name)
                at += 1
    for fields in per_version.values():
        wire = [f.name for f in fields if f.tag is None]
        assert wire == [n for n in order if n in wire], (order, wire)
    return order


def _span(first: "tuple[int, int] | None", second: "tuple[int, int] | None") -> "tuple[int, int] | None":
    if first is None or second is None:
        return first or second
    assert second[0] == first[1] + 1, "a gap in the versions of a field"
    return first[0], second[1]


def _merge_field(versions: Iterable[FieldShape]) -> FieldShape:
    merged, *later = versions
    for field in later:
        assert field.type == merged.type, (merged, field)
        span = _span(merged.versions, field.versions)
        assert span is not None
        merged = dataclasses.replace(
            field,
            versions=span,
            nullable=_span(merged.nullable, field.nullable),
            tagged=_span(merged.tagged, field.tagged),
            tag=merged.tag if field.tag is None else field.tag,
        )
    return merged


def _merge_struct(name: str, per_version: dict[int, list[FieldShape]]) -> StructShape:
    shape = StructShape(name, (min(per_version), max(per_version)))
    for field_name in _merge_order(per_version):
        found = [f for v in sorted(per_version) for f in per_version[v] if f.name == field_name]
        shape.fields.append(_merge_field(found))
    return shape


def _root_class(module_name: str, kind: str) -> type[Any]:
    module = importlib.import_module(module_name)
    (root,) = [
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if c.__module__ == module_name and getattr(c, "__type__", None) is getattr(EntityType, kind)
    ]
    return root


def message(api: str, kind: str) -> MessageShape:
    """The message of kio's package `api` ("fetch") of a kind: request, response, header or data."""
    spans = schema_name_map[api]
    seen: Seen = {}
    flexible: list[int] = []
    for version in sorted(spans):
        root = _root_class(f"kio.schema.{api}.v{version}.{kind}", kind)
        _collect(root.__name__, root, version, seen)
        if root.__flexible__:
            flexible.append(version)
    structs = {name: _merge_struct(name, per_version) for name, per_version in seen.items()}
    key = {v: k for k, v in api_key_map.items()}.get(api)
    shape = MessageShape(
        root.__name__,
        kind,
        key,
        (min(spans), max(spans)),
        min(flexible) if flexible else None,
        list(_by_use(structs, root.__name__)),
    )
    if shape.name in OVERRIDES:
        OVERRIDES[shape.name](shape)
    return shape


def _by_use(structs: dict[str, StructShape], root: str) -> Iterator[StructShape]:
    done: set[str] = set()

    def visit(name: str) -> Iterator[StructShape]:
        if name in done:
            return
        done.add(name)
        for field in structs[name].fields:
            if field.is_struct:
                yield from visit(field.element)
        yield structs[name]

    yield from visit(root)


def api_messages() -> Iterator[tuple[int, str, MessageShape, MessageShape]]:
    """(api key, kio's name of the API, request, response) of every API, by key."""
    for key, api in sorted(api_key_map.items()):
        yield key, api, message(api, "request"), message(api, "response")


def data_messages() -> Iterator[tuple[str, MessageShape]]:
    for name in DATA_MESSAGES:
        yield name, message(name, "header" if name.endswith("header") else "data")
