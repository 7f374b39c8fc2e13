"""Changes of JSON schemas, by Confluent's names and by path."""

from typing import Any

import pytest

from kbroker.http.registry.formats import json_diff
from kbroker.http.registry.formats.json_diff import differences
from kbroker.http.registry.formats.json_document import Document

STRING: dict[str, Any] = {"type": "string"}
SHORT: dict[str, Any] = {"type": "string", "maxLength": 5}
LONG: dict[str, Any] = {"type": "string", "maxLength": 9}
NUMBER: dict[str, Any] = {"type": "number"}
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


def changes(old: Any, new: Any) -> list[tuple[str, str]]:
    return differences(Document(old, {}), Document(new, {}))


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def an_array(*heads: Any, rest: Any = True) -> dict[str, Any]:
    return {"type": "array", "prefixItems": list(heads), "items": rest}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (STRING, STRING, []),
        (STRING, True, []),
        (STRING, {}, []),
        (False, STRING, []),
        (STRING, False, [("TYPE_NARROWED", "#/")]),
        (True, STRING, [("TYPE_NARROWED", "#/")]),
        (STRING, NUMBER, [("TYPE_CHANGED", "#/")]),
        ({"type": ["string", "null"]}, STRING, [("TYPE_NARROWED", "#/")]),
        (STRING, {"type": ["string", "null"]}, []),
        ({"type": "integer"}, NUMBER, []),
        (NUMBER, {"type": "integer"}, [("TYPE_CHANGED", "#/")]),
    ],
)
def test_a_type_may_get_wider(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert changes(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (an_object(a=LONG), an_object(a=SHORT), [("MAX_LENGTH_DECREASED", "#/properties/a/")]),
        (an_object(a=SHORT), an_object(a=LONG), []),
        (an_object(), an_object(a=STRING), [("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/a")]),
        (an_object(), an_object(a=True), []),
        (an_object(), an_object(a={}), []),
        (an_object(a=STRING), an_object(), []),
        (CLOSED, CLOSED | an_object(a=STRING), []),
        (
            CLOSED | an_object(a=STRING),
            CLOSED,
            [("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/properties/a")],
        ),
        (CLOSED | an_object(a=False), CLOSED, []),
        (an_object(), CLOSED, [("ADDITIONAL_PROPERTIES_REMOVED", "#/")]),
        (CLOSED, an_object(), []),
        (
            {"type": "object", "additionalProperties": LONG},
            {"type": "object", "additionalProperties": SHORT},
            [("ADDITIONAL_PROPERTIES_NARROWED", "#/")],
        ),
        (
            {"type": "object", "additionalProperties": SHORT},
            {"type": "object", "additionalProperties": LONG},
            [],
        ),
        (
            {"type": "object", "additionalProperties": SHORT, "properties": {"a": NUMBER}},
            {"type": "object", "additionalProperties": SHORT},
            [("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/a")],
        ),
        (
            {"type": "object", "additionalProperties": LONG, "properties": {"a": SHORT}},
            {"type": "object", "additionalProperties": LONG},
            [],
        ),
        (
            {"type": "object", "additionalProperties": SHORT},
            {"type": "object", "additionalProperties": SHORT, "properties": {"a": LONG}},
            [],
        ),
    ],
)
def test_properties_are_compared_with_those_of_the_same_name_or_with_the_others(
    old: Any, new: Any, found: list[tuple[str, str]]
) -> None:
    assert changes(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (an_array(LONG), an_array(SHORT), [("MAX_LENGTH_DECREASED", "#/items/0/")]),
        (
            an_array(SHORT, LONG),
            an_array(SHORT, SHORT),
            [("MAX_LENGTH_DECREASED", "#/items/1/")],
        ),
        (an_array(SHORT), an_array(LONG), []),
        (an_array(SHORT), an_array(), []),
        (an_array(), an_array(STRING), [("TYPE_NARROWED", "#/items/0/")]),
        (an_array(), an_array(rest=False), [("ADDITIONAL_ITEMS_REMOVED", "#/")]),
        (an_array(rest=False), an_array(), []),
        (an_array(rest=LONG), an_array(rest=SHORT), [("MAX_LENGTH_DECREASED", "#/items/")]),
        (an_array(rest=SHORT), an_array(rest=LONG), []),
    ],
)
def test_items_are_compared_by_their_place(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert changes(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"allOf": [SHORT]}, {"allOf": [LONG]}, []),
        ({"allOf": [LONG]}, {"allOf": [SHORT]}, [("PRODUCT_TYPE_EXTENDED", "#/allOf")]),
        (SHORT, {"allOf": [LONG]}, []),
        (STRING, {"allOf": [SHORT]}, [("COMBINED_TYPE_CHANGED", "#/allOf")]),
        ({"oneOf": [SHORT, NUMBER]}, {"oneOf": [NUMBER, LONG]}, []),
        ({"oneOf": [SHORT, NUMBER]}, {"oneOf": [SHORT]}, [("SUM_TYPE_NARROWED", "#/oneOf")]),
        ({"anyOf": [SHORT, NUMBER]}, {"anyOf": [NUMBER]}, [("SUM_TYPE_NARROWED", "#/anyOf")]),
        (SHORT, {"anyOf": [NUMBER, LONG]}, []),
        (STRING, {"anyOf": [NUMBER, SHORT]}, [("COMBINED_TYPE_CHANGED", "#/anyOf")]),
        (
            {"anyOf": [SHORT, NUMBER]},
            {"oneOf": [SHORT, NUMBER]},
            [("COMBINED_TYPE_CHANGED", "#/oneOf")],
        ),
        ({"anyOf": [SHORT]}, {"oneOf": [SHORT]}, []),
        ({"oneOf": [SHORT, NUMBER]}, {"anyOf": [SHORT, NUMBER]}, []),
    ],
)
def test_combinations_imply_those_before(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert changes(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"not": LONG}, {"not": SHORT}, []),
        ({"not": SHORT}, {"not": LONG}, [("NOT_TYPE_EXTENDED", "#/not")]),
        ({}, {"not": SHORT, "title": "t"}, [("NOT_TYPE_EXTENDED", "#/not")]),
        ({"not": SHORT}, {"title": "t"}, []),
    ],
)
def test_an_exclusion_may_get_narrower(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert changes(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"propertyNames": SHORT}, {"propertyNames": LONG}, []),
        ({"propertyNames": LONG}, {"propertyNames": SHORT}, [("UNKNOWN", "#/propertyNames")]),
        ({}, {"propertyNames": SHORT}, [("UNKNOWN", "#/propertyNames")]),
        ({"patternProperties": {"a": SHORT}}, {"patternProperties": {"a": LONG}}, []),
        (
            {"patternProperties": {"a": LONG}},
            {"patternProperties": {"a": SHORT}},
            [("UNKNOWN", "#/patternProperties")],
        ),
        (
            {"patternProperties": {"a": SHORT}},
            {"patternProperties": {"b": SHORT}},
            [("UNKNOWN", "#/patternProperties")],
        ),
        ({"contains": SHORT}, {"contains": LONG}, [("UNKNOWN", "#/contains")]),
        ({"contains": SHORT}, {"contains": SHORT, "title": "t"}, []),
        ({"if": SHORT}, {"title": "t"}, []),
    ],
)
def test_a_keyword_that_is_hard_to_compare_is_not_decided(
    old: Any, new: Any, found: list[tuple[str, str]]
) -> None:
    assert changes(old, new) == found


def test_a_change_is_listed_once_and_all_are_listed() -> None:
    old = an_object(a=LONG, b=STRING)
    assert changes(old, an_object(a=SHORT, b=NUMBER)) == [
        ("MAX_LENGTH_DECREASED", "#/properties/a/"),
        ("TYPE_CHANGED", "#/properties/b/"),
    ]


def test_a_comparison_ends_at_the_bound_of_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_diff, "MAX_PAIRS", 1)
    assert changes(LONG, SHORT) == [("MAX_LENGTH_DECREASED", "#/")]
    monkeypatch.setattr(json_diff, "MAX_PAIRS", 0)
    assert changes(LONG, SHORT) == [("UNKNOWN", "#/")]


def test_a_comparison_ends_at_the_bound_of_its_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = an_object(a=an_object(a=LONG)), an_object(a=an_object(a=SHORT))
    monkeypatch.setattr(json_diff, "MAX_DEPTH", 2)
    assert changes(old, new) == [("MAX_LENGTH_DECREASED", "#/properties/a/properties/a/")]
    monkeypatch.setattr(json_diff, "MAX_DEPTH", 1)
    assert ("UNKNOWN", "#/properties/a/properties/a/") in changes(old, new)


def test_recursive_schemas_are_compared_once() -> None:
    def tree(leaf: dict[str, Any]) -> dict[str, Any]:
        node = an_object(leaf=leaf, next={"$ref": "#/node"})
        return {"$ref": "#/node", "node": node}

    assert changes(tree(SHORT), tree(LONG)) == []
    found = changes(tree(LONG), tree(SHORT))
    assert ("MAX_LENGTH_DECREASED", "#/properties/leaf/") in found
    assert {name for name, _ in found} == {"MAX_LENGTH_DECREASED"}
