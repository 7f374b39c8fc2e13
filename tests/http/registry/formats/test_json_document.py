"""References of JSON schemas: to the schema itself, to others, and to nothing."""

from typing import Any

import pytest

from kbroker.http.registry.formats import InvalidSchema
from kbroker.http.registry.formats.json_document import Document

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
