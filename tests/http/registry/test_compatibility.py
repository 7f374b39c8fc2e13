"""Which versions a schema is compared with, and what references lead to."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from kbroker.http.registry import compatibility as module
from kbroker.http.registry.compatibility import TOO_LONG, find, parsed_row, reasons_against, resolve
from kbroker.http.registry.deadline import Deadline
from kbroker.http.registry.failure import Failure, busy
from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import Reference, SchemaRow
from tests.http.registry.desk import record


def row(
    subject: str,
    version: int,
    schema: Any,
    *references: Reference,
    deleted: bool = False,
    kind: str = "AVRO",
    number: int = 1,
) -> SchemaRow:
    return SchemaRow(subject, version, number, json.dumps(schema), kind, references, deleted)


def state_of(*rows: SchemaRow) -> State:
    state = State()
    for one in rows:
        state.apply(one.key(), one.value())
    return state


def typed(kind: str) -> dict[str, Any]:
    """A record whose only field has a type and a default."""
    return record({"name": "x", "type": kind, "default": "" if kind == "string" else 0})


class Against:
    """Compares a new schema with versions of a subject, oldest first."""

    def __init__(self, *schemas: Any, kind: str = "AVRO") -> None:
        self.rows = [row("one", number, schema) for number, schema in enumerate(schemas, 1)]
        self.kind = kind

    def reasons(self, level: str, schema: Any) -> list[str]:
        new = row("one", 0, schema, kind=self.kind)
        state = State()
        return reasons_against(state, level, new, parsed_row(state, new), self.rows)

    def against(self, level: str, schema: Any) -> str | None:
        """The version with which it is incompatible."""
        found = [reason for reason in self.reasons(level, schema) if reason.startswith("{oldSchemaVersion")]
        return found[0].partition(": ")[2].rstrip("}") if found else None


def test_a_busy_compiler_is_no_reason_against_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would not try again."""
    versions = Against(typed("long"))
    new = row("one", 0, typed("long"))
    candidate = parsed_row(State(), new)

    def compiler_is_busy(*_: object) -> NoReturn:
        raise busy("schemas are compiled")

    monkeypatch.setattr(module, "parsed_row", compiler_is_busy)
    with pytest.raises(Failure, match="try again"):
        reasons_against(State(), "BACKWARD", new, candidate, versions.rows)


@pytest.mark.parametrize(
    ("level", "version"),
    [("NONE", None), ("BACKWARD", None), ("BACKWARD_TRANSITIVE", "2"), ("FULL_TRANSITIVE", "2")],
)
def test_a_transitive_level_names_the_newest_version_that_does_not_fit(
    level: str, version: str | None
) -> None:
    versions = Against(typed("string"), typed("string"), typed("long"))
    assert versions.against(level, typed("long")) == version


@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_with_the_level_none_anything_may_follow(level: str) -> None:
    assert bool(Against(typed("string")).reasons(level, typed("long"))) is (level != "NONE")


def test_a_schema_of_another_type_may_not_follow() -> None:
    old = Against({"type": "string"}, kind="JSON")
    (reason,) = old.reasons("BACKWARD", {"type": "string"})
    assert reason == "Incompatible because of different schema type: AVRO and JSON"
    assert old.reasons("NONE", {"type": "string"}) == []


def test_a_comparison_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "comparison_deadline", lambda: Deadline(-1.0))
    assert Against(typed("long")).reasons("BACKWARD", typed("long")) == [TOO_LONG]


def test_a_stored_version_that_cannot_be_parsed_is_a_reason() -> None:
    versions = Against({"type": "nonsense"})
    (reason,) = versions.reasons("BACKWARD", typed("long"))
    assert reason.startswith("version 1 of one is invalid")


def resolved(state: State, *references: Reference, subject: str = "order") -> list[tuple[str, str]]:
    return [(name, json.loads(text)["name"]) for name, text in resolve(state, subject, references)]


def test_references_are_found_in_their_order_even_deleted_ones() -> None:
    state = state_of(
        row("a", 1, record(name="A1"), deleted=True),
        row("a", 2, record(name="A2")),
        row("a", 3, record(name="A3"), deleted=True),
        row("b", 1, record(name="B"), Reference("a.avsc", "a", 1)),
    )
    assert resolved(state, Reference("b.avsc", "b", 1)) == [("a.avsc", "A1"), ("b.avsc", "B")]
    assert resolved(state, Reference("x", "a", 3)) == [("x", "A3")]
    assert resolved(state, Reference("x", "a", -1)) == [("x", "A2")], "the newest that is not deleted"
    with pytest.raises(Failure, match='No schema reference found for subject "a" and version 4'):
        resolved(state, Reference("x", "a", 4))


def test_references_are_looked_up_in_the_context_of_their_subject() -> None:
    state = state_of(row("a", 1, record(name="A")), row(":.blue:a", 1, record(name="Blue")))
    one = Reference("x", "a", 1)
    assert resolved(state, one) == [("x", "A")]
    assert resolved(state, one, subject=":.blue:order") == [("x", "Blue")]


def chain(length: int) -> State:
    """Subjects 0, 1, ...: each refers to the one before."""
    rows = [row("0", 1, record(name="N0"))]
    for number in range(1, length):
        before = Reference(f"n{number - 1}", str(number - 1), 1)
        rows.append(row(str(number), 1, record(name=f"N{number}"), before))
    return state_of(*rows)


def test_references_that_lead_back_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEPTH", 900)
    state = state_of(
        row("a", 1, record(name="A"), Reference("b", "b", 1)),
        row("b", 1, record(name="B"), Reference("c", "a", 1)),
    )
    calls = counted(monkeypatch)
    with pytest.raises(Failure, match="lead back"):
        resolved(state, Reference("a", "a", 1))
    assert len(calls) == 3, "at the first place that was there before"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each list of references that is followed."""
    calls: list[None] = []
    follow: Callable[..., None] = module._Resolution.follow

    def counting(*given: Any) -> None:
        calls.append(None)
        follow(*given)

    monkeypatch.setattr(module._Resolution, "follow", counting)
    return calls


def test_references_are_followed_up_to_a_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEPTH", 3)
    state = chain(4)
    assert len(resolved(state, Reference("top", "2", 1))) == 3
    with pytest.raises(Failure, match="too many"):
        resolved(state, Reference("top", "3", 1))


def test_references_lead_to_a_bounded_number_of_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REFERENCES", 3)
    state = state_of(row("a", 1, record(name="A")))
    names = [Reference(f"n{number}", "a", 1) for number in range(5)]
    assert len(resolved(state, *names[:4])) == 4
    with pytest.raises(Failure, match="too many"):
        resolved(state, *names)


def test_an_id_is_looked_up_in_its_context_first() -> None:
    state = state_of(row("a", 1, record(name="A")), row(":.blue:a", 1, record(name="Blue")))
    only = row(":.blue:b", 1, record(name="Only"), number=2)
    state.apply(only.key(), only.value())
    assert find(state, "a", 1).subject == "a"
    assert find(state, ":.blue:x", 1).subject == ":.blue:a"
    assert find(state, "a", 2).subject == ":.blue:b"
    with pytest.raises(Failure):
        find(state, "a", 3)
