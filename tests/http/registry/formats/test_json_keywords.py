"""Keywords of JSON schemas whose values are no schemas: a stricter value is a change."""

from typing import Any

import pytest

from kbroker.http.registry.formats.json_keywords import plain_changes, required
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
