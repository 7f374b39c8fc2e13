"""Compares JSON schemas: lists every change, by name and path, that makes a schema refuse values of
an older one.

The names are Confluent's. An undecidable change counts as not allowed."""

from collections.abc import Iterator
from typing import Any

from kbroker.http.registry.deadline import Deadline
from kbroker.http.registry.formats.json_document import MAX_DEPTH, Document
from kbroker.http.registry.formats.json_keywords import (
    Change,
    dependencies,
    items_of,
    other_properties,
    plain_changes,
    required,
    types,
)
from kbroker.http.registry.formats.json_values import value_text

COMBINED = ("allOf", "anyOf", "oneOf")
HARD_TO_COMPARE = (
    "if",
    "then",
    "else",
    "dependentSchemas",
    "contains",
    "patternProperties",
    "propertyNames",
)
MAX_PAIRS = 20_000
"""Maximum number of compared pairs of schemas. References can repeat a pair twice at each level."""
MAX_S = 4.0
"""Time limit of a comparison: references can repeat a large pair as often."""


class _TooMuch(Exception):
    """A comparison has passed its bounds."""


class _Budget:
    """The pairs and the time that are left for one comparison."""

    def __init__(self) -> None:
        self._pairs = MAX_PAIRS
        self._deadline = Deadline(MAX_S)

    def spend(self) -> None:
        """Another pair. Raises _TooMuch."""
        self._pairs -= 1
        if self._pairs < 0 or self._deadline.is_over:
            raise _TooMuch


def differences(old: Document, new: Document) -> list[Change]:
    """Changes that make the new schema refuse a value that the old one allows."""
    try:
        return list(dict.fromkeys(_Comparison(old, new, _Budget()).compare(old.schema, new.schema, "#/", 0)))
    except (_TooMuch, RecursionError):
        return [("UNKNOWN", "#/")]
    except (TypeError, AttributeError, KeyError, ValueError, ArithmeticError):
        # A part that only a reference or a keyword of another draft makes a schema was never
        # checked to be one.
        return [("UNKNOWN", "#/")]


class _Comparison:
    """One comparison. It stops at a pair that was already compared, so recursive schemas end.
    budget: of the whole comparison."""

    def __init__(self, old: Document, new: Document, budget: _Budget) -> None:
        self.old = old
        self.new = new
        self._budget = budget
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
        self._budget.spend()
        self._open.add(pair)
        try:
            old, new = self.old.resolved(old), self.new.resolved(new)
            if old is False or new is True or new == {}:
                return
            if old == new and not self.new.refers(new) and value_text(old) == value_text(new):
                return
            if new is False:
                yield "TYPE_NARROWED", path
                return
            yield from self._keywords({} if old is True else old, new, path, depth)
        finally:
            self._open.discard(pair)

    def _keywords(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        before, after = types(old), types(new)
        if not all(one in after or (one == "integer" and "number" in after) for one in before):
            yield ("TYPE_NARROWED" if before & after else "TYPE_CHANGED"), path
            return
        yield from plain_changes(old, new, path)
        if "object" in before:
            yield from self._object(old, new, path, depth)
        if "array" in before:
            yield from self._array(old, new, path, depth)
        yield from self._combined(old, new, path, depth)
        if "not" in new and not ("not" in old and self._reversed(old["not"], new["not"], depth)):
            yield "NOT_TYPE_EXTENDED", f"{path}not"
        for keyword in HARD_TO_COMPARE:
            changed = keyword in new and new[keyword] != old.get(keyword)
            if changed and not self._is_wider(keyword, old, new, depth):
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
        return _Comparison(self.new, self.old, self._budget).allowed(new, old, depth)

    def _object(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        yield from self._properties(old, new, path, depth)
        yield from required(old, new, path)
        closed_before, closed_after = other_properties(old), other_properties(new)
        if closed_before is not False and closed_after is False:
            yield "ADDITIONAL_PROPERTIES_REMOVED", path
        elif not self.allowed(closed_before, closed_after, depth):
            yield "ADDITIONAL_PROPERTIES_NARROWED", path
        yield from dependencies(old, new, path)

    def _properties(
        self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int
    ) -> Iterator[Change]:
        before, after = old.get("properties") or {}, new.get("properties") or {}
        for name, schema in after.items():
            where = f"{path}properties/{name}"
            if name in before:
                yield from self.compare(before[name], schema, f"{where}/", depth + 1)
            elif (
                schema is not True and schema != {} and not self.allowed(other_properties(old), schema, depth)
            ):
                yield "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", where
        for name, schema in before.items():
            if name not in after and schema is not False:
                rest = other_properties(new)
                if rest is False:
                    yield "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", f"{path}properties/{name}"
                elif not self.allowed(schema, rest, depth):
                    kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                    yield kind, f"{path}properties/{name}"

    def _array(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        (heads_before, rest_before), (heads_after, rest_after) = items_of(old), items_of(new)
        for number in range(max(len(heads_before), len(heads_after))):
            before = heads_before[number] if number < len(heads_before) else rest_before
            after = heads_after[number] if number < len(heads_after) else rest_after
            yield from self.compare(before, after, f"{path}items/{number}/", depth + 1)
        if rest_after is False and rest_before is not False:
            yield "ADDITIONAL_ITEMS_REMOVED", path
        else:
            yield from self.compare(rest_before, rest_after, f"{path}items/", depth + 1)

    def _combined(self, old: dict[str, Any], new: dict[str, Any], path: str, depth: int) -> Iterator[Change]:
        plain = {name: value for name, value in old.items() if name not in COMBINED}
        for keyword in COMBINED:
            if keyword in new:
                compare = self._product if keyword == "allOf" else self._sum
                kind = compare(keyword, old, plain, new[keyword], depth)
                if kind is not None:
                    yield kind, f"{path}{keyword}"

    def _product(
        self, keyword: str, old: dict[str, Any], plain: dict[str, Any], parts: list[Any], depth: int
    ) -> str | None:
        """The change of `allOf`: the old schemas must imply each new one. plain: the old schema
        without combinations."""
        held = old.get(keyword) or [plain]
        missing = [part for part in parts if not any(self.allowed(one, part, depth) for one in held)]
        if not missing:
            return None
        return "PRODUCT_TYPE_EXTENDED" if keyword in old else "COMBINED_TYPE_CHANGED"

    def _sum(
        self, keyword: str, old: dict[str, Any], plain: dict[str, Any], parts: list[Any], depth: int
    ) -> str | None:
        """The change of `oneOf` or `anyOf`: each old schema must imply one of the new ones."""
        held = old.get(keyword) or old.get("oneOf") or old.get("anyOf")
        for one in held if held is not None else [plain]:
            if not any(self.allowed(one, part, depth) for part in parts):
                return "SUM_TYPE_NARROWED" if held is not None else "COMBINED_TYPE_CHANGED"
        narrower = keyword == "oneOf" and "oneOf" not in old and len(parts) > 1 and "anyOf" in old
        return "COMBINED_TYPE_CHANGED" if narrower else None
