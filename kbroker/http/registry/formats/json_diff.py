"""Compares JSON schemas: lists every change, by name and path, that makes a schema refuse values of
an older one.

The names are Confluent's. An undecidable change counts as not allowed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any
from urllib.parse import urldefrag

from kbroker.config.whole_numbers import whole_number
from kbroker.http.registry.formats import InvalidSchema

Change = tuple[str, str]
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
COMBINED = ("allOf", "anyOf", "oneOf")
MAX_DEPTH = 100
MAX_PAIRS = 20_000
"""Maximum number of compared pairs of schemas. References can repeat a pair twice at each level."""
# keyword: (its change when it gets stricter or is added, whether a larger value is stricter)
BOUNDS = {
    "maxLength": ("MAX_LENGTH", False),
    "minLength": ("MIN_LENGTH", True),
    "maximum": ("MAXIMUM", False),
    "exclusiveMaximum": ("EXCLUSIVE_MAXIMUM", False),
    "minimum": ("MINIMUM", True),
    "exclusiveMinimum": ("EXCLUSIVE_MINIMUM", True),
    "maxItems": ("MAX_ITEMS", False),
    "minItems": ("MIN_ITEMS", True),
    "maxProperties": ("MAX_PROPERTIES", False),
    "minProperties": ("MIN_PROPERTIES", True),
}
SAME = {"pattern": "PATTERN", "format": "FORMAT", "const": "ENUM_ARRAY", "contentEncoding": "FORMAT"}


class Document:
    """A schema with its references."""

    def __init__(self, schema: Any, others: Mapping[str, Any]) -> None:
        self.schema = schema
        self.others = dict(others)
        for one in others.values():
            if isinstance(one, dict) and isinstance(one.get("$id"), str):
                self.others.setdefault(one["$id"], one)
        self._ids: dict[str, Any] = {}
        self._refers: dict[int, bool] = {}
        for found in _schemas(schema):
            for name in ("$id", "$anchor", "$dynamicAnchor"):
                if isinstance(found.get(name), str):
                    self._ids.setdefault(("" if name == "$id" else "#") + found[name], found)
        self._note_references(schema)

    def refers(self, schema: Any) -> bool:
        """Whether a part of the schema contains references, as far as known for a composed one."""
        return self._refers.get(id(schema), True)

    def _note_references(self, value: Any) -> bool:
        found = isinstance(value, dict) and ("$ref" in value or "$dynamicRef" in value)
        for part in _parts(value):
            found |= self._note_references(part)
        if isinstance(value, dict):
            self._refers[id(value)] = found
        return found

    def check(self) -> None:
        """Check that every reference can be resolved. Raises InvalidSchema."""
        for found in _schemas(self.schema):
            if isinstance(reference := found.get("$ref"), str):
                self.target(reference)

    def target(self, reference: str) -> Any:
        """The target of a $ref. Raises InvalidSchema."""
        if reference in self._ids:
            return self._ids[reference]
        try:
            url, fragment = urldefrag(reference)
        except ValueError as error:
            raise InvalidSchema(f"reference {reference}: {error}") from None
        root = self.others.get(url, self._ids.get(url)) if url else self.schema
        if root is None:
            # A relative reference is resolved against $id: its last part is the name of the
            # reference.
            root = self.others.get(url.rpartition("/")[2])
        if root is None and url.startswith(("http://json-schema.org/", "https://json-schema.org/")):
            return True
        if root is None:
            raise InvalidSchema(f"unresolved reference {reference}")
        return _pointer(root, fragment, reference)

    def resolved(self, schema: Any) -> Any:
        """A schema with its $ref resolved; its other keywords are kept."""
        seen = set()
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            target = self.target(schema["$ref"])
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            schema = target if not isinstance(target, dict) else {**target, **rest}
        return schema


def _pointer(root: Any, fragment: str, reference: str) -> Any:
    found = root
    for part in fragment.split("/")[1:] if fragment.startswith("/") else ([] if not fragment else [None]):
        step = None if part is None else part.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and (at := whole_number(step or "", len(found) - 1)) is not None:
            found = found[at]
        else:
            raise InvalidSchema(f"unresolved reference {reference}")
    return found


def _schemas(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object inside a schema that may be a schema, so not values of enum and const."""
    if depth > MAX_DEPTH:
        raise InvalidSchema("nested too deeply")
    if isinstance(value, dict):
        yield value
    for one in _parts(value):
        yield from _schemas(one, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    """The values in a part of a schema that may be or contain a schema."""
    if isinstance(value, dict):
        return [one for name, one in value.items() if name not in ("enum", "const", "default", "examples")]
    return value if isinstance(value, list) else ()


class _TooMany(Exception):
    """More than MAX_PAIRS."""


def differences(old: Document, new: Document) -> list[Change]:
    """Changes that make the new schema refuse a value that the old one allows."""
    try:
        return list(dict.fromkeys(_Comparison(old, new, count()).compare(old.schema, new.schema, "#/", 0)))
    except (_TooMany, RecursionError):
        return [("UNKNOWN", "#/")]
    except (TypeError, AttributeError, KeyError, ValueError, ArithmeticError):
        # A part that only a reference or a keyword of another draft makes a schema was never
        # checked to be one.
        return [("UNKNOWN", "#/")]


class _Comparison:
    """One comparison. It stops at a pair that was already compared, so recursive schemas end.
    pairs: counts pairs."""

    def __init__(self, old: Document, new: Document, pairs: Iterator[int]) -> None:
        self.old = old
        self.new = new
        self._pairs = pairs
        self._open: set[tuple[int, int]] = set()

    def allowed(self, old: Any, new: Any, depth: int) -> bool:
        return not any(True for _ in self.compare(old, new, "", depth + 1))

    def compare(self, old: Any, new: Any, path: str, depth: int) -> Iterator[Change]:
        """Compare two schemas at a path and below."""
        pair = (id(old), id(new))
        if pair in self._open:
            return
        if depth > MAX_DEPTH:
            yield "UNKNOWN", path
            return
        if next(self._pairs) >= MAX_PAIRS:
            raise _TooMany
        self._open.add(pair)
        try:
            old, new = self.old.resolved(old), self.new.resolved(new)
            if old is False or new is True or new == {}:
                return
            if old == new and not self.new.refers(new) and _value(old) == _value(new):
                return
            if new is False:
                yield "TYPE_NARROWED", path
                return
            yield from self._keywords({} if old is True else old, new, path, depth)
        finally:
            self._open.discard(pair)

    def _keywords(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        before, after = _types(old), _types(new)
        if not all(one in after or (one == "integer" and "number" in after) for one in before):
            yield ("TYPE_NARROWED" if before & after else "TYPE_CHANGED"), path
            return
        yield from _enum(old, new, path)
        yield from _bounds(old, new, path)
        for keyword, name in SAME.items():
            if keyword in new and new[keyword] != old.get(keyword) and not _covered(keyword, old, new):
                yield f"{name}_{'CHANGED' if keyword in old else 'ADDED'}", path
        if new.get("uniqueItems") and not old.get("uniqueItems"):
            yield "UNIQUE_ITEMS_ADDED", path
        if "object" in before:
            yield from self._object(old, new, path, depth)
        if "array" in before:
            yield from self._array(old, new, path, depth)
        yield from self._combined(old, new, path, depth)
        if "not" in new and not ("not" in old and self._reversed(old["not"], new["not"], depth)):
            yield "NOT_TYPE_EXTENDED", f"{path}not"
        for keyword in (
            "if",
            "then",
            "else",
            "dependentSchemas",
            "contains",
            "patternProperties",
            "propertyNames",
        ):
            if (
                keyword in new
                and new[keyword] != old.get(keyword)
                and not self._is_wider(keyword, old, new, depth)
            ):
                yield "UNKNOWN", f"{path}{keyword}"

    def _is_wider(self, keyword: str, old: dict[str, Any], new: dict[str, Any], depth: int) -> bool:
        if keyword == "propertyNames" and keyword in old:
            return self.allowed(old[keyword], new[keyword], depth)
        if keyword == "patternProperties":
            before = old.get(keyword, {})
            return all(
                name in before and self.allowed(before[name], one, depth)
                for name, one in new[keyword].items()
            )
        return False

    def _reversed(self, old: Any, new: Any, depth: int) -> bool:
        return _Comparison(self.new, self.old, self._pairs).allowed(new, old, depth)

    def _object(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        before, after = old.get("properties") or {}, new.get("properties") or {}
        for name, schema in after.items():
            where = f"{path}properties/{name}"
            if name in before:
                yield from self.compare(before[name], schema, f"{where}/", depth + 1)
            elif schema is not True and schema != {} and not self.allowed(_others(old), schema, depth):
                yield "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", where
        for name, schema in before.items():
            if name not in after and schema is not False:
                rest = _others(new)
                if rest is False:
                    yield "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", f"{path}properties/{name}"
                elif not self.allowed(schema, rest, depth):
                    kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                    yield kind, f"{path}properties/{name}"
        needed = set(old.get("required") or ())
        for name in new.get("required") or ():
            default = isinstance(after.get(name), dict) and "default" in after[name]
            if name not in needed and not default:
                known = name in before
                kind = (
                    "REQUIRED_ATTRIBUTE_ADDED" if known else "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
                )
                yield kind, f"{path}{'required' if known else 'properties'}/{name}"
        closed_before, closed_after = _others(old), _others(new)
        if closed_before is not False and closed_after is False:
            yield "ADDITIONAL_PROPERTIES_REMOVED", path
        elif not self.allowed(closed_before, closed_after, depth):
            yield "ADDITIONAL_PROPERTIES_NARROWED", path
        yield from _dependencies(old, new, path)

    def _array(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        (heads_before, rest_before), (heads_after, rest_after) = _items(old), _items(new)
        for number in range(max(len(heads_before), len(heads_after))):
            before = heads_before[number] if number < len(heads_before) else rest_before
            after = heads_after[number] if number < len(heads_after) else rest_after
            yield from self.compare(before, after, f"{path}items/{number}/", depth + 1)
        if rest_after is False and rest_before is not False:
            yield "ADDITIONAL_ITEMS_REMOVED", path
        else:
            yield from self.compare(rest_before, rest_after, f"{path}items/", depth + 1)

    def _combined(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        for keyword in COMBINED:
            if keyword not in new:
                continue
            parts = new[keyword]
            if keyword == "allOf":
                held = old.get("allOf") or [{k: v for k, v in old.items() if k not in COMBINED}]
                missing = [
                    n for n, one in enumerate(parts) if not any(self.allowed(h, one, depth) for h in held)
                ]
                if missing:
                    yield (
                        "PRODUCT_TYPE_EXTENDED" if "allOf" in old else "COMBINED_TYPE_CHANGED",
                        f"{path}allOf",
                    )
                continue
            held = old.get(keyword) or old.get("oneOf") or old.get("anyOf")
            alone = {name: value for name, value in old.items() if name not in COMBINED}
            for one in held if held is not None else [alone]:
                if not any(self.allowed(one, each, depth) for each in parts):
                    kind = "SUM_TYPE_NARROWED" if held is not None else "COMBINED_TYPE_CHANGED"
                    yield kind, f"{path}{keyword}"
                    break
            else:
                if keyword == "oneOf" and "oneOf" not in old and len(parts) > 1 and "anyOf" in old:
                    yield "COMBINED_TYPE_CHANGED", f"{path}oneOf"


def _types(schema: dict[str, Any]) -> set[str]:
    given = schema.get("type")
    if given is None:
        return set(TYPES)
    return {given} if isinstance(given, str) else set(given)


def _enum(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    if "enum" not in new:
        return
    allowed = old.get("enum", [old["const"]] if "const" in old else None)
    if allowed is None:
        yield "ENUM_ARRAY_ADDED", path
        return
    before, after = {_value(one) for one in allowed}, {_value(one) for one in new["enum"]}
    if before - after:
        yield ("ENUM_ARRAY_NARROWED" if before & after else "ENUM_ARRAY_CHANGED"), path


def _value(value: Any) -> str:
    """A text that is equal for values that are equal in JSON Schema: 1 and 1.0, not 1 and true."""
    return json.dumps(_plain_numbers(value), sort_keys=True)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _covered(keyword: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return keyword == "const" and old.get("enum") == [new["const"]]


def _bounds(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    for keyword, (name, larger_is_stricter) in BOUNDS.items():
        if keyword not in new:
            continue
        before, after = old.get(keyword), new[keyword]
        if before is None:
            if keyword.startswith("min") and after == 0 and keyword != "minimum":
                continue
            yield f"{name}_ADDED", path
        elif isinstance(before, bool) or isinstance(after, bool):
            if after and not before:
                yield f"{name}_ADDED", path
        elif (after > before) if larger_is_stricter else (after < before):
            yield f"{name}_{'INCREASED' if larger_is_stricter else 'DECREASED'}", path
    if "multipleOf" in new:
        before, after = old.get("multipleOf"), new["multipleOf"]
        if before is None:
            yield "MULTIPLE_OF_ADDED", path
        elif before != after and before % after != 0:
            yield "MULTIPLE_OF_EXPANDED" if after % before == 0 else "MULTIPLE_OF_CHANGED", path


def _others(schema: dict[str, Any]) -> Any:
    """The schema of properties that the schema does not name."""
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """(schemas of the first items, schema of the rest), of all drafts."""
    items = schema.get("items", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], items
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def _dependencies(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    for keyword in ("dependencies", "dependentRequired"):
        before, after = old.get(keyword) or {}, new.get(keyword) or {}
        for name, needs in after.items():
            if name not in before:
                yield "DEPENDENCY_ARRAY_ADDED", f"{path}{keyword}/{name}"
            elif not isinstance(needs, list) or not isinstance(before[name], list):
                if needs != before[name]:
                    yield "DEPENDENCY_SCHEMA_CHANGED", f"{path}{keyword}/{name}"
            elif set(needs) - set(before[name]):
                yield "DEPENDENCY_ARRAY_EXTENDED", f"{path}{keyword}/{name}"
