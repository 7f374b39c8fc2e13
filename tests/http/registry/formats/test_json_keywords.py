"""Keywords of JSON schemas whose values are no schemas: a stricter value is a change."""

from typing import Any

import pytest

from kbroker.http.registry.formats.json_keywords import (
    dependencies,
    items_of,
    other_properties,
    plain_changes,
    required,
    types,
)
from kbroker.http.registry.formats.json_values import value_text

Schema = dict[str, Any]


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {"minLength": 0}, []),
        ({}, {"minLength": 1}, ["MIN_LENGTH_ADDED"]),
        ({}, {"minimum": 0}, ["MINIMUM_ADDED"]),
        ({"maximum": 5}, {"maximum": 4}, ["MAXIMUM_DECREASED"]),
        ({"maximum": 4}, {"maximum": 5}, []),
        ({"minItems": 1}, {"minItems": 2}, ["MIN_ITEMS_INCREASED"]),
        ({"exclusiveMaximum": False}, {"exclusiveMaximum": True}, ["EXCLUSIVE_MAXIMUM_ADDED"]),
        ({}, {"multipleOf": 2}, ["MULTIPLE_OF_ADDED"]),
        ({"multipleOf": 4}, {"multipleOf": 2}, []),
        ({"multipleOf": 2}, {"multipleOf": 4}, ["MULTIPLE_OF_EXPANDED"]),
        ({"multipleOf": 2}, {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
        ({"enum": [1, 2]}, {"enum": [1.0]}, ["ENUM_ARRAY_NARROWED"]),
        ({"const": 1}, {"enum": [1, 2]}, []),
        ({"pattern": "a"}, {"pattern": "b"}, ["PATTERN_CHANGED"]),
        ({}, {"uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    ],
)
def test_a_stricter_keyword_is_a_change(old: Schema, new: Schema, changes: list[str]) -> None:
    assert [name for name, _ in plain_changes(old, new, "#/")] == changes


def test_a_newly_required_property_needs_a_default() -> None:
    old: Schema = {"properties": {"known": {}}}
    new = {"properties": {"a": {"default": 1}, "b": {}}, "required": ["known", "a", "b"]}
    assert list(required(old, new, "#/")) == [
        ("REQUIRED_ATTRIBUTE_ADDED", "#/required/known"),
        ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", "#/properties/b"),
    ]


def test_numbers_are_equal_by_value_but_not_to_booleans() -> None:
    assert value_text({"a": [1.0]}) == value_text({"a": [1]})
    assert value_text(1) != value_text(True)


@pytest.mark.parametrize(
    ("keyword", "name", "larger_is_stricter"),
    [
        ("maxLength", "MAX_LENGTH", False),
        ("minLength", "MIN_LENGTH", True),
        ("maximum", "MAXIMUM", False),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", False),
        ("minimum", "MINIMUM", True),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", True),
        ("maxItems", "MAX_ITEMS", False),
        ("minItems", "MIN_ITEMS", True),
        ("maxProperties", "MAX_PROPERTIES", False),
        ("minProperties", "MIN_PROPERTIES", True),
    ],
)
def test_each_bound_is_stricter_in_its_own_direction(
    keyword: str, name: str, larger_is_stricter: bool
) -> None:
    def changes(old: Schema, new: Schema) -> list[tuple[str, str]]:
        return list(plain_changes(old, new, "#/a/"))

    raised, lowered = changes({keyword: 5}, {keyword: 6}), changes({keyword: 6}, {keyword: 5})
    assert raised == ([(f"{name}_INCREASED", "#/a/")] if larger_is_stricter else [])
    assert lowered == ([] if larger_is_stricter else [(f"{name}_DECREASED", "#/a/")])
    assert changes({keyword: 5}, {keyword: 5}) == changes({keyword: 5}, {}) == []
    assert changes({}, {keyword: 5}) == [(f"{name}_ADDED", "#/a/")]
    nothing = keyword in ("minLength", "minItems", "minProperties")
    assert changes({}, {keyword: 0}) == ([] if nothing else [(f"{name}_ADDED", "#/a/")])


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {"pattern": "a"}, ["PATTERN_ADDED"]),
        ({}, {"format": "date"}, ["FORMAT_ADDED"]),
        ({"format": "date"}, {"format": "time"}, ["FORMAT_CHANGED"]),
        ({}, {"contentEncoding": "base64"}, ["FORMAT_ADDED"]),
        ({"format": "date"}, {}, []),
        ({}, {"const": 1}, ["ENUM_ARRAY_ADDED"]),
        ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED"]),
        ({"enum": [1]}, {"const": 1}, []),
        ({"enum": [1, 2]}, {"const": 1}, ["ENUM_ARRAY_ADDED"]),
        ({}, {"enum": [1]}, ["ENUM_ARRAY_ADDED"]),
        ({"enum": [1]}, {}, []),
        ({"enum": [1]}, {"enum": [2, 1]}, []),
        ({"enum": [1]}, {"enum": [2]}, ["ENUM_ARRAY_CHANGED"]),
        ({"const": 1}, {"enum": [2]}, ["ENUM_ARRAY_CHANGED"]),
        ({"uniqueItems": True}, {"uniqueItems": True}, []),
        ({"uniqueItems": True}, {"uniqueItems": False}, []),
        ({}, {"uniqueItems": False}, []),
        ({"exclusiveMinimum": True}, {"exclusiveMinimum": False}, []),
        ({"exclusiveMinimum": True}, {"exclusiveMinimum": True}, []),
        ({"multipleOf": 2}, {"multipleOf": 2}, []),
        ({"multipleOf": 2}, {}, []),
        ({"multipleOf": 6}, {"multipleOf": 4}, ["MULTIPLE_OF_CHANGED"]),
    ],
)
def test_a_keyword_that_is_added_removed_or_replaced_is_compared(
    old: Schema, new: Schema, changes: list[str]
) -> None:
    assert [name for name, _ in plain_changes(old, new, "#/")] == changes


def test_a_schema_without_types_allows_all_seven() -> None:
    assert types({}) == {"null", "boolean", "integer", "number", "string", "array", "object"}
    assert types({"type": "string"}) == {"string"}
    assert types({"type": ["string", "null"]}) == {"string", "null"}


def test_other_properties_are_allowed_unless_a_keyword_says_otherwise() -> None:
    assert other_properties({}) is True
    assert other_properties({"unevaluatedProperties": False}) is False
    assert other_properties({"additionalProperties": {}, "unevaluatedProperties": False}) == {}


@pytest.mark.parametrize(
    ("schema", "heads", "rest"),
    [
        ({}, [], True),
        ({"items": {"type": "null"}}, [], {"type": "null"}),
        ({"items": [1, 2]}, [1, 2], True),
        ({"items": [1], "additionalItems": False}, [1], False),
        ({"items": {}, "additionalItems": False}, [], {}),
        ({"prefixItems": [1]}, [1], True),
        ({"prefixItems": [1], "items": False}, [1], False),
    ],
)
def test_items_of_all_drafts_have_first_ones_and_a_rest(schema: Schema, heads: list[Any], rest: Any) -> None:
    assert items_of(schema) == (heads, rest)


@pytest.mark.parametrize("keyword", ["dependencies", "dependentRequired"])
@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {"a": ["b"]}, ["DEPENDENCY_ARRAY_ADDED"]),
        ({"a": ["b"]}, {"a": ["b", "c"]}, ["DEPENDENCY_ARRAY_EXTENDED"]),
        ({"a": ["b", "c"]}, {"a": ["c"]}, []),
        ({"a": ["b"]}, {}, []),
        ({"a": {"type": "null"}}, {"a": {"type": "null"}}, []),
        ({"a": {"type": "null"}}, {"a": {}}, ["DEPENDENCY_SCHEMA_CHANGED"]),
        ({"a": ["b"]}, {"a": {}}, ["DEPENDENCY_SCHEMA_CHANGED"]),
        ({"a": {}}, {"a": ["b"]}, ["DEPENDENCY_SCHEMA_CHANGED"]),
    ],
)
def test_a_property_that_requires_more_others_is_a_change(
    keyword: str, old: Schema, new: Schema, changes: list[str]
) -> None:
    found = list(dependencies({keyword: old}, {keyword: new}, "#/"))
    assert found == [(name, f"#/{keyword}/a") for name in changes]


def test_a_property_that_was_required_is_no_change() -> None:
    old: Schema = {"properties": {"a": {}}, "required": ["a", "b"]}
    assert list(required(old, {"properties": {}, "required": ["a", "b"]}, "#/")) == []
    assert list(required(old, {}, "#/")) == []
    added = list(required({"properties": {"a": {}}}, {"properties": {"a": True}, "required": ["a"]}, "#/"))
    assert added == [("REQUIRED_ATTRIBUTE_ADDED", "#/required/a")]


def test_texts_of_values_differ_for_values_that_differ() -> None:
    assert value_text({"a": 1, "b": 2}) == value_text({"b": 2.0, "a": 1})
    assert value_text([1, 2]) != value_text([2, 1])
    assert value_text(1.5) != value_text(1)
    assert value_text("1") != value_text(1)
    assert value_text(None) != value_text(False)
