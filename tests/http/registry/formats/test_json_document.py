"""References of JSON schemas: to the schema itself, to others, and to nothing."""

from typing import Any

import pytest

from kbroker.http.registry.formats import InvalidSchema
from kbroker.http.registry.formats.json_document import MAX_DEPTH, MAX_STEPS, Document

AMOUNT = {"type": "integer"}
ORDER: dict[str, Any] = {
    "$id": "http://example.com/order.json",
    "$defs": {"amount": AMOUNT, "a/b": {"$anchor": "named", "type": "string"}},
    "prefixItems": [{"type": "null"}],
}


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("#", ORDER),
        ("#/$defs/amount", AMOUNT),
        ("#/$defs/a~1b/type", "string"),
        ("#named", ORDER["$defs"]["a/b"]),
        ("#/prefixItems/0", {"type": "null"}),
        ("other.json#/type", "array"),
        ("http://example.com/other.json", {"type": "array"}),
    ],
)
def test_a_reference_has_its_target(reference: str, target: Any) -> None:
    assert Document(ORDER, {"other.json": {"type": "array"}}).target(reference) == target


@pytest.mark.parametrize("reference", ["#/$defs/none", "#/prefixItems/1", "#unnamed", "none.json"])
def test_an_unresolved_reference_is_refused(reference: str) -> None:
    with pytest.raises(InvalidSchema, match="unresolved"):
        Document({"properties": {"a": {"$ref": reference}}, **ORDER}, {}).check()


def test_a_resolved_schema_keeps_its_other_keywords() -> None:
    document = Document(ORDER, {})
    assert document.resolved({"$ref": "#/$defs/amount", "minimum": 1}) == {"type": "integer", "minimum": 1}
    assert document.refers({"$ref": "#/$defs/amount"})
    assert not document.refers(AMOUNT)


def test_a_chain_of_references_has_a_bound() -> None:
    def chain(steps: int) -> Document:
        links = {f"a{number}": {"$ref": f"#/a{number + 1}"} for number in range(steps)}
        return Document(links | {f"a{steps}": AMOUNT}, {})

    first = {"$ref": "#/a0"}
    assert chain(MAX_STEPS - 1).resolved(first) == AMOUNT
    with pytest.raises(InvalidSchema, match=f"more than {MAX_STEPS} references"):
        chain(MAX_STEPS).resolved(first)


def test_a_reference_to_itself_ends() -> None:
    document = Document({"a": {"$ref": "#/b"}, "b": {"$ref": "#/a", "minimum": 1}}, {})
    assert document.resolved({"$ref": "#/a"}) == {"$ref": "#/a", "minimum": 1}


def test_a_schema_has_a_bound_of_its_depth() -> None:
    def nested(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        for _ in range(levels):
            schema = {"items": schema}
        return schema

    Document(nested(MAX_DEPTH), {}).check()
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        Document(nested(MAX_DEPTH + 1), {}).check()


@pytest.mark.parametrize("keyword", ["enum", "const", "default", "examples"])
def test_values_that_are_no_schemas_hold_no_references(keyword: str) -> None:
    document = Document({keyword: {"$ref": "#/none"}}, {})
    document.check()
    assert not document.refers(document.schema)
    inner: dict[str, Any] = {"properties": {"a": {"$dynamicRef": "#a"}}}
    assert Document(inner, {}).refers(inner)


def test_the_schemas_of_json_schema_itself_allow_everything() -> None:
    for start in ("http", "https"):
        assert Document(True, {}).target(f"{start}://json-schema.org/draft-07/schema#") is True
