"""The registry's schemas: read without a lock while records are applied, and their digests."""

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.http.registry.operations import same
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import Row
from kbroker.http.registry.topic_records import Reference, SchemaRow, schema_key
from tests.http.registry.desk import Desk, record

SUBJECTS, ROUNDS = 30, 60


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_readers_meet_a_state_that_changes(hasty_threads: None) -> None:
    """Versions come and are deleted for good, as when another client changes them."""
    state = State()
    state._put(SchemaRow("base", 1, 1, "0"))
    rows = [
        SchemaRow(f"s{n}", version, 2, str(n), references=(Reference("base", "base", 1),))
        for n in range(SUBJECTS)
        for version in (1, 2)
    ]
    done = threading.Event()

    def change() -> None:
        try:
            for _ in range(ROUNDS):
                for row in rows:
                    state.apply(row.key(), row.value())
                for row in rows:
                    state.apply(row.key(), None)
        finally:
            done.set()

    writer = threading.Thread(target=change)
    writer.start()
    try:
        while not done.is_set():
            assert state.referencing("base", 1) in ([], [2])
            assert {row.subject for row in state.versions("s1")} <= {"s1"}
            state.ids_without_rows(rows)
    finally:
        writer.join()


class Counted(dict[str, int]):
    """Metadata that counts how often it is turned into text."""

    texts = 0

    def items(self) -> Any:
        Counted.texts += 1
        return super().items()


def test_the_metadata_of_a_version_is_digested_once() -> None:
    """They may be large, and a subject may have many versions."""
    state = State()
    rows = [SchemaRow("s", n, n, "0", extra=(("metadata", Counted(a=n)),)) for n in range(1, 50)]
    for row in rows:
        state._put(row)
    before = Counted.texts
    assert before == len(rows)
    new = SchemaRow("s", 0, 0, "0", extra=(("metadata", {"a": 7}),))
    parsed: Any = None
    for _ in range(3):
        found = same(state, new, parsed, state.versions("s"), normalize=False)
        assert found is rows[6]
        assert state.id_of(rows[3]) == 4
    assert Counted.texts == before


@pytest.mark.parametrize(
    "other",
    [
        SchemaRow("s", 1, 1, "1"),
        SchemaRow("s", 1, 1, "0", "JSON"),
        SchemaRow("s", 1, 1, "0", references=(Reference("a", "a", 1),)),
        SchemaRow("s", 1, 1, "0", extra=(("ruleSet", {}),)),
    ],
)
def test_schemas_that_differ_have_digests_that_differ(other: SchemaRow) -> None:
    row = SchemaRow("s", 1, 1, "0")
    assert row.digest == SchemaRow("t", 2, 3, "0", deleted=True).digest == row.with_deleted(True).digest
    assert other.digest != row.digest


def test_members_that_another_registry_adds_to_a_record_make_no_other_schema() -> None:
    given = {"subject": "s", "version": 1, "id": 1, "schema": "0", "ruleSet": None}
    row = SchemaRow.from_json(given | {"guid": "1-2", "ts": 7})
    assert row.digest == SchemaRow("s", 1, 1, "0").digest
    assert b'"ts":7' in row.value()


def test_a_version_that_is_overwritten_with_another_schema_leaves_its_id_to_that() -> None:
    state = State()
    first, second = SchemaRow("s", 1, 1, "0"), SchemaRow("s", 1, 1, "1")
    for row in (first, second):
        state.apply(row.key(), row.value())
    assert state.id_of(first) is None
    assert state.id_of(second) == 1


def test_an_id_of_two_schemas_stays_with_the_one_that_is_not_removed() -> None:
    """As two registries may have written them."""
    state = State()
    first, second = SchemaRow("s", 1, 1, "0"), SchemaRow("t", 1, 1, "1")
    for row in (first, second):
        state.apply(row.key(), row.value())
    assert not state.is_of_another(first)
    assert state.is_of_another(second)
    assert state.id_of(second) is None
    state.apply(second.key(), replace(second, id=2).value())
    assert (state.id_of(first), state.id_of(second)) == (1, 2)
    assert state.is_of_another(first, 2)
    assert state.ids["."] == {1: [first], 2: [replace(second, id=2)]}


def compacted(rows: Sequence[Row]) -> list[Row]:
    """The last record of each key, in order."""
    last = {key: offset for offset, (key, _) in enumerate(rows)}
    return [row for offset, row in enumerate(rows) if last[row[0]] == offset]


def ids_of(state: State) -> dict[int, list[str]]:
    """By id: the texts of its rows in order."""
    return {number: [row.schema for row in rows] for number, rows in state.ids["."].items()}


@given(
    st.lists(
        st.builds(
            SchemaRow, st.sampled_from("abc"), st.integers(1, 2), st.integers(1, 3), st.sampled_from("01"),
            deleted=st.booleans(),
        )
    )
)  # fmt: skip
def test_compaction_changes_no_id(rows: list[SchemaRow]) -> None:
    """As several registries may have written them."""
    records = [(row.key(), row.value()) for row in rows]
    before, after = Desk(records).topic.state, Desk(compacted(records)).topic.state
    assert ids_of(before) == ids_of(after)
    for text in "01":
        row = SchemaRow("new", 1, 0, text)
        assert before.id_of(row) == after.id_of(row)


def test_a_deleted_version_keeps_its_id_from_a_later_schema() -> None:
    """Also after compaction."""
    rows = [
        SchemaRow(subject, 1, 5, text) for subject, text in (("a", '"int"'), ("b", '"long"'), ("c", '"int"'))
    ]
    desk = Desk([(row.key(), row.value()) for row in rows])
    for subject in "ac":
        assert desk("DELETE", f"/subjects/{subject}/versions/1") == (200, 1)
    for one in (desk, Desk(compacted(desk.topic.rows))):
        assert one("GET", "/schemas/ids/5/schema") == (200, "int")
        assert one("GET", "/schemas/ids/5/versions?deleted=true")[1] == [
            {"subject": "a", "version": 1},
            {"subject": "c", "version": 1},
        ]


def test_a_deleted_version_that_is_imported_again_has_its_id() -> None:
    """Also where a later schema has it."""
    rows = [SchemaRow("a", 1, 5, '"int"', deleted=True), SchemaRow("b", 1, 5, '"long"')]
    desk = Desk([(row.key(), row.value()) for row in rows])
    assert desk("PUT", "/mode/a", {"mode": "IMPORT"})[0] == 200
    again = {"schema": '"int"', "id": 5, "version": 1}
    assert desk("POST", "/subjects/a/versions", again) == (200, {"id": 5})
    for one in (desk, Desk(compacted(desk.topic.rows))):
        assert one("GET", "/schemas/ids/5/schema") == (200, "int")
        assert one("GET", "/subjects/a/versions") == (200, [1])


def test_the_versions_of_a_deleted_subject_keep_their_order() -> None:
    rows = [SchemaRow(subject, 1, 5, text) for subject, text in (("a", '"int"'), ("b", '"long"'))]
    desk = Desk([(row.key(), row.value()) for row in rows])
    assert desk("DELETE", "/subjects/a") == (200, [1])
    assert ids_of(desk.topic.state) == ids_of(desk.again().topic.state) == {5: ['"int"', '"long"']}


def test_a_deleted_version_stays_deleted_when_its_subject_is_deleted_again() -> None:
    """An earlier version was imported again meanwhile; also after compaction."""
    desk = Desk()
    assert desk("PUT", "/config/a", {"compatibility": "NONE"})[0] == 200
    first, _ = (desk.register("a", record(name)) for name in ("one", "two"))
    assert desk("DELETE", "/subjects/a") == (200, [1, 2])
    assert desk("PUT", "/mode/a", {"mode": "IMPORT"})[0] == 200
    assert desk.register("a", record("one"), id=first, version=1) == first
    assert desk("DELETE", "/subjects/a") == (200, [1])
    for one in (desk, Desk(compacted(desk.topic.rows))):
        assert one("GET", "/subjects/a/versions")[0] == 404
        assert one("GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])


def test_an_id_that_an_import_replaces_is_given_to_no_other_schema() -> None:
    """Also after compaction."""
    desk = Desk()
    assert desk("PUT", "/mode/a", {"mode": "IMPORT"})[0] == 200
    for number in (9, 5):
        assert desk.register("a", record("one"), id=number, version=1) == number
    for one in (desk, Desk(compacted(desk.topic.rows))):
        assert one.register("b", record("other")) == 10


def test_a_record_that_is_nested_too_deeply_is_kept_or_ignored_as_a_whole() -> None:
    """At some depth JSON can be read, but not be written: then it is too deep to be compared."""
    ends = set()
    for depth in range(800, 1000):
        state = State()
        nested = f'"metadata":{"[" * depth}{"]" * depth}'
        value = f'{{"subject":"s","version":1,"id":7,"schema":"1",{nested}}}'
        state.apply(schema_key("s", 1), value.encode())
        ends.add(
            (len(state.subjects), len(state.ids["."]), len(state.identities["."]), state.last_ids.get("."))
        )
    assert ends == {(1, 1, 1, 7), (0, 0, 0, None)}
