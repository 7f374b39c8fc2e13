"""Avro: parsed and judged by the avro library, printed as Java's Schema.toString() does."""

import json
import warnings
from typing import Any

import avro.errors
import avro.name
import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from kbroker.http import finite_json
from kbroker.http.registry.formats import InvalidSchema, Resolved

MAX_PAIRS = 100_000
"""Maximum number of compared pairs of types, which take at most four seconds. The library compares
each branch of a union with each branch of the other."""
MAX_FIELDS = 5000
"""Maximum of one record. The library compares the name of each field with all before it."""
_RECORDS = ("record", "error")
_NAMED = (*_RECORDS, "enum", "fixed")


class _TooMany(Exception):
    """More than MAX_PAIRS."""


class _Checker(ReaderWriterCompatibilityChecker):
    """One comparison with a bounded number of pairs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pairs = 0

    def calculate_compatibility(self, reader: Any, writer: Any, location: list[str]) -> Any:
        self._pairs += 1
        if self._pairs > MAX_PAIRS:
            raise _TooMany
        return super().calculate_compatibility(reader, writer, location)


class AvroSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Resolved) -> None:
        self._references = dict(references)
        names = avro.name.Names(validate_names=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about unknown logical types, which Java accepts, too
                for one in references.values():
                    avro.schema.make_avsc_object(_loaded(one), names)
                given = _loaded(text)
                self.schema = avro.schema.make_avsc_object(given, names)
        except avro.errors.AvroException as error:
            raise InvalidSchema(str(error)) from None
        except InvalidSchema:
            raise
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InvalidSchema(f"no Avro schema: {error}") from None
        self.canonical = json.dumps(_ordered(given, ""), separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        return self.canonical

    normal_text = normalized

    def reads(self, written: "AvroSchema") -> list[str]:
        if (self.canonical, self._references) == (written.canonical, written._references):
            return []
        try:
            result: Any = _Checker().get_compatibility(self.schema, written.schema)
        except _TooMany:
            return [
                f"{{errorType:'UNKNOWN', description:'more than {MAX_PAIRS} pairs of types', additionalInfo:'/'}}"
            ]
        if result.compatibility is SchemaCompatibilityType.compatible:
            return []
        kinds = [one.name for one in result.incompatibilities] or ["incompatible"]
        places = sorted(result.locations) or ["/"]
        texts = sorted(result.messages) or [""]
        return [
            f"{{errorType:'{kind.upper()}', description:'{text}', additionalInfo:'{place}'}}"
            for kind, place, text in zip(
                kinds,
                [*places, *places[-1:] * len(kinds)],
                [*texts, *texts[-1:] * len(kinds)],
                strict=False,
            )
        ]


def parse(text: str, references: Resolved) -> AvroSchema:
    """Raises InvalidSchema."""
    return AvroSchema(text, references)


def _loaded(text: str) -> Any:
    """The JSON of a schema. Raises InvalidSchema, ValueError."""
    found = finite_json.loads(text)
    left = [found]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            fields = part.get("fields")
            if isinstance(fields, list) and len(fields) > MAX_FIELDS:
                raise InvalidSchema(f"a record of more than {MAX_FIELDS} fields")
            left += part.values()
        elif isinstance(part, list):
            left += part
    return found


def _ordered(schema: Any, space: str) -> Any:
    """Members in Java's order, with a namespace only where it changes. Unknown members follow the
    known ones."""
    if isinstance(schema, list):
        return [_ordered(one, space) for one in schema]
    if not isinstance(schema, dict):
        return (
            schema.removeprefix(f"{space}.")
            if space and isinstance(schema, str) and _within(schema, space)
            else schema
        )
    kind = schema.get("type")
    if isinstance(kind, dict | list) and set(schema) == {"type"}:
        return _ordered(kind, space)
    if not isinstance(kind, str):
        return {name: _ordered(value, space) if name == "type" else value for name, value in schema.items()}
    if kind in _NAMED:
        return _named(schema, kind, space)
    found: dict[str, Any] = {"type": kind}
    for name in ("items", "values"):
        if name in schema:
            found[name] = _ordered(schema[name], space)
    rest = {name: value for name, value in schema.items() if name not in ("type", "items", "values")}
    return {**found, **rest} if rest or len(found) > 1 else kind


def _within(name: str, space: str) -> bool:
    return name.startswith(f"{space}.") and "." not in name[len(space) + 1 :]


def _named(schema: dict[str, Any], kind: str, space: str) -> dict[str, Any]:
    name, own = schema.get("name", ""), schema.get("namespace")
    if isinstance(name, str) and "." in name:
        own, _, name = name.rpartition(".")
    elif own is None:
        own = space
    found: dict[str, Any] = {"type": kind, "name": name}
    if own != space:
        found["namespace"] = own
    if schema.get("doc"):
        found["doc"] = schema["doc"]
    if "fields" in schema and kind in _RECORDS:
        found["fields"] = [_field(one, own) for one in schema["fields"]]
    for member in ("symbols", "default", "size"):
        if member in schema:
            found[member] = schema[member]
    known = ("type", "name", "namespace", "doc", "fields", "symbols", "default", "size", "aliases")
    found |= {member: value for member, value in schema.items() if member not in known}
    if schema.get("aliases"):
        found["aliases"] = schema["aliases"]
    return found


def _field(field: dict[str, Any], space: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field["name"], "type": _ordered(field["type"], space)}
    if field.get("doc"):
        found["doc"] = field["doc"]
    if "default" in field:
        found["default"] = field["default"]
    if field.get("order", "ascending") != "ascending":
        found["order"] = field["order"]
    if field.get("aliases"):
        found["aliases"] = field["aliases"]
    known = ("name", "type", "doc", "default", "order", "aliases")
    return found | {member: value for member, value in field.items() if member not in known}
