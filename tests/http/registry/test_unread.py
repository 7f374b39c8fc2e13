"""Rows whose records are not read back yet."""

from dataclasses import replace

import pytest

from kbroker.http.registry import unread
from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import SchemaRow
from kbroker.http.registry.unread import UnreadRows

ROW = SchemaRow("s", 3, 7, '"int"')


@pytest.fixture
def rows() -> UnreadRows:
    found = UnreadRows()
    found.add(ROW)
    return found


def test_the_same_schema_gets_its_id_in_its_context_and_its_version_in_its_subject(rows: UnreadRows) -> None:
    assert rows.id_of(replace(ROW, id=0, version=0)) == 7
    assert rows.version_of(replace(ROW, id=0, version=0)) == 3
    elsewhere = replace(ROW, subject="t", id=0, version=0)
    assert (rows.id_of(elsewhere), rows.version_of(elsewhere)) == (7, None)
    for other in (replace(ROW, subject=":.blue:s"), replace(ROW, schema='"long"')):
        assert (rows.id_of(other), rows.version_of(other)) == (None, None)


def test_the_highest_numbers_are_those_of_a_context_and_of_a_subject(rows: UnreadRows) -> None:
    rows.add(SchemaRow("t", 5, 6, '"long"'))
    assert (rows.last_id("."), rows.last_id(".blue")) == (7, 0)
    assert (rows.last_version("s"), rows.last_version("t"), rows.last_version("u")) == (3, 5, 0)


@pytest.mark.parametrize("stored", [replace(ROW, id=8), replace(ROW, schema='"long"'), ROW])
def test_a_row_is_dropped_when_its_own_record_is_read(rows: UnreadRows, stored: SchemaRow) -> None:
    state = State()
    state.apply(stored.key(), stored.value())
    rows.settle(state)
    assert rows.last_id(".") == (0 if stored is ROW else 7)


def test_a_row_that_gets_another_id_has_only_that(rows: UnreadRows) -> None:
    rows.add(replace(ROW, id=9))
    assert rows.id_of(ROW) == 9


def test_a_row_is_new_until_its_version_was_added(rows: UnreadRows) -> None:
    """Then the earlier one may be written, also if it has another id."""
    assert not rows.add(ROW)
    assert not rows.add(replace(ROW, id=9))
    assert rows.add(replace(ROW, version=4))
    rows.remove(ROW)
    assert rows.add(ROW)


def test_an_id_and_a_version_belong_to_the_schema_that_got_them(rows: UnreadRows) -> None:
    other = replace(ROW, schema='"long"')
    assert not rows.is_of_another(ROW)
    assert not rows.is_of_another(replace(ROW, subject="t"))
    assert rows.is_of_another(replace(other, version=4))
    assert rows.is_of_another(replace(other, subject="t"))
    assert rows.is_of_another(replace(other, id=8))
    assert not rows.is_of_another(replace(other, id=8, version=4))
    assert not rows.is_of_another(replace(other, subject=":.blue:s"))


def test_the_number_of_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "MAX_ROWS", 10)
    rows = UnreadRows()
    for number in range(1, 100):
        rows.add(SchemaRow(f"s{number}", 1, number, str(number)))
    assert len(rows._rows) == 10
    assert rows.last_id(".") == 99
