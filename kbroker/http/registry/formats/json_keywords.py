"""Compares the keywords of JSON schemas whose values are not schemas themselves: types, bounds,
enumerations, names of properties.

The names of the changes are Confluent's."""

from collections.abc import Iterator
from typing import Any

from kbroker.http.registry.formats.json_values import value_text

Change = tuple[str, str]
"""A change's name and the path in the schema."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
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
FROM_ZERO = ("minLength", "minItems", "minProperties")
"""Bounds of which 0 bounds nothing."""
SAME = {"pattern": "PATTERN", "format": "FORMAT", "const": "ENUM_ARRAY", "contentEncoding": "FORMAT"}


def types(schema: dict[str, Any]) -> set[str]:
    """The types that the schema allows."""
    given = schema.get("type")
    if given is None:
        return set(TYPES)
    return {given} if isinstance(given, str) else set(given)


def plain_changes(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    """Changes of enumerations, bounds, formats and uniqueness."""
    yield from _enum(old, new, path)
    yield from _bounds(old, new, path)
    for keyword, name in SAME.items():
        if keyword in new and new[keyword] != old.get(keyword) and not _covered(keyword, old, new):
            yield f"{name}_{'CHANGED' if keyword in old else 'ADDED'}", path
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield "UNIQUE_ITEMS_ADDED", path


def _enum(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    if "enum" not in new:
        return
    allowed = old.get("enum", [old["const"]] if "const" in old else None)
    if allowed is None:
        yield "ENUM_ARRAY_ADDED", path
        return
    before, after = {value_text(one) for one in allowed}, {value_text(one) for one in new["enum"]}
    if before - after:
        yield ("ENUM_ARRAY_NARROWED" if before & after else "ENUM_ARRAY_CHANGED"), path


def _covered(keyword: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return keyword == "const" and old.get("enum") == [new["const"]]


def required(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    """Changes of the required properties."""
    before, after = old.get("properties") or {}, new.get("properties") or {}
    needed = set(old.get("required") or ())
    for name in new.get("required") or ():
        has_default = isinstance(after.get(name), dict) and "default" in after[name]
        if name in needed or has_default:
            continue
        if name in before:
            yield "REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}"
        else:
            yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", f"{path}properties/{name}"


def _bounds(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    for keyword, (name, larger_is_stricter) in BOUNDS.items():
        if keyword not in new:
            continue
        before, after = old.get(keyword), new[keyword]
        if before is None:
            if not (keyword in FROM_ZERO and after == 0):
                yield f"{name}_ADDED", path
        elif isinstance(before, bool) or isinstance(after, bool):
            if after and not before:
                yield f"{name}_ADDED", path
        elif (after > before) if larger_is_stricter else (after < before):
            yield f"{name}_{'INCREASED' if larger_is_stricter else 'DECREASED'}", path
    if "multipleOf" in new:
        yield from _multiple_of(old.get("multipleOf"), new["multipleOf"], path)


def _multiple_of(before: Any, after: Any, path: str) -> Iterator[Change]:
    if before is None:
        yield "MULTIPLE_OF_ADDED", path
    elif before != after and before % after != 0:
        yield "MULTIPLE_OF_EXPANDED" if after % before == 0 else "MULTIPLE_OF_CHANGED", path


def other_properties(schema: dict[str, Any]) -> Any:
    """The schema of the properties that have no schema by name."""
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def items_of(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """(schemas of the first items, schema of the rest), of all drafts."""
    items = schema.get("items", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], items
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def dependencies(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Change]:
    """Changes of the properties that others require."""
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
