"""Registering: decided without the lock, for the state that the lock then protects; ids that are
given once."""

import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest

from kbroker.http.registry import compatibility, deadline
from kbroker.http.registry.failure import Failure, unavailable
from kbroker.http.registry.formats import parse
from kbroker.http.registry.operations import LARGEST
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import NotWritten, Row
from kbroker.http.registry.topic_records import SchemaRow, config_key, dump
from tests.http.registry.desk import Desk, ListTopic, record

LONG_S = 60.0
PATH = "/subjects/s/versions"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def is_free(lock: Any) -> bool:
    """Whether another thread could take the lock."""
    found: list[bool] = []

    def attempt() -> None:
        found.append(lock.acquire(blocking=False))
        if found[-1]:
            lock.release()

    other = threading.Thread(target=attempt)
    other.start()
    other.join(LONG_S)
    return found == [True]


@pytest.mark.parametrize("by", ["query", "setting"])
def test_a_schema_is_parsed_and_normalized_before_its_change_excludes_others(
    desk: Desk, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may run protoc, which takes long."""
    free: dict[str, list[bool]] = {"parse": [], "normal_text": []}

    def parsing(*args: Any) -> Any:
        free["parse"].append(is_free(desk.topic.lock))
        found = parse(*args)

        def normal_text() -> str:
            free["normal_text"].append(is_free(desk.topic.lock))
            return found.normal_text()

        return SimpleNamespace(
            canonical=found.canonical, normal_text=normal_text, normalized=found.normalized, reads=found.reads
        )

    monkeypatch.setattr(compatibility, "parse", parsing)
    if by == "setting":
        desk("PUT", "/config/s", {"compatibility": "NONE", "normalize": True})
    path = PATH + ("?normalize=true" if by == "query" else "")
    body = {"schema": json.dumps(record("a", name=f"BeforeTheLock{by}"))}
    assert desk("POST", path, body) == (200, {"id": 1})
    assert free == {"parse": [True], "normal_text": [True]}


def test_a_known_schema_is_found_without_the_lock(desk: Desk) -> None:
    """As each serializer asks when it starts. It needs no right to write either."""
    desk.register("s", '"int"')
    topic: Any = desk.topic
    topic.lock = topic.check_rights = None
    assert desk.register("s", '"int"') == 1


def meanwhile(desk: Desk, change: Callable[[], Any]) -> None:
    """Makes a change once, after the next decision and before the lock."""
    topic: Any = desk.topic

    def check_rights(_: object) -> None:
        del topic.check_rights
        change()

    topic.check_rights = check_rights


def test_a_setting_that_changes_meanwhile_applies(desk: Desk) -> None:
    value = dump({"compatibilityLevel": "NONE", "normalize": True})
    meanwhile(desk, lambda: desk.topic.write(None, [(config_key("s"), value)]))
    desk.register("s", '{"title":"b","description":"a"}', schemaType="JSON")
    assert desk("GET", f"{PATH}/1")[1]["schema"] == '{"description":"a","title":"b"}'


def test_a_version_that_is_registered_meanwhile_is_compared(desk: Desk) -> None:
    meanwhile(desk, lambda: desk.register("s", '"int"'))
    assert desk("POST", PATH, {"schema": '"string"'})[1]["error_code"] == 409
    meanwhile(desk, lambda: desk.register("s", '"long"'))
    assert desk.register("s", '"long"') == 2
    assert desk("GET", PATH) == (200, [1, 2])


def test_a_reference_to_the_latest_version_is_that_of_the_time_of_the_write(desk: Desk) -> None:
    """Also if both versions have the same text."""
    schema = json.dumps(record("a", name="Part"))
    desk.register("part", schema)
    metadata = {"properties": {"a": "b"}}
    meanwhile(desk, lambda: desk.register("part", schema, metadata=metadata))
    whole = record({"name": "part", "type": "Part"}, name="Whole")
    desk.register("s", whole, references=[{"name": "Part", "subject": "part", "version": -1}])
    assert desk("GET", f"{PATH}/1")[1]["references"][0]["version"] == 2


def test_a_mode_that_changes_meanwhile_applies(desk: Desk) -> None:
    meanwhile(desk, lambda: desk("PUT", "/mode/s", {"mode": "READONLY"}))
    assert desk("POST", PATH, {"schema": '"string"'})[1]["error_code"] == 42205
    assert desk("GET", "/subjects") == (200, [])


def test_a_subject_that_changes_all_the_time_is_refused_in_the_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "WAIT_S", 0.0)
    meanwhile(desk, lambda: desk.register("s", '"int"'))
    status, answer = desk("POST", PATH, {"schema": '"long"'})
    assert (status, answer["error_code"]) == (503, 50003)
    assert desk.register("s", '"long"') == 2


class LateTopic(ListTopic):
    """While `is_late`, a write gets no answer, and its records are not in the topic yet."""

    def __init__(self) -> None:
        self.is_late = False
        self.late: list[Row] = []
        super().__init__()

    def write(self, caller: Any, rows: Sequence[Row]) -> State:
        if self.is_late:
            self.late += rows
            raise unavailable("the broker did not answer")
        return super().write(caller, rows)

    def land(self) -> None:
        """The late records are in the topic now."""
        super().write(None, self.late)


@pytest.fixture
def late_desk() -> Desk:
    desk = Desk()
    desk.topic = desk.registry.topic = LateTopic()
    return desk


def lose(desk: Desk, subject: str, schema: str) -> None:
    """A schema is registered without an answer."""
    topic: Any = desk.topic
    topic.is_late = True
    status, answer = desk("POST", f"/subjects/{subject}/versions", {"schema": schema})
    assert (HTTPStatus(status), answer["error_code"]) == (HTTPStatus.SERVICE_UNAVAILABLE, 50003)
    topic.is_late = False


@pytest.mark.parametrize("subject", ["s", "other"])
def test_an_id_whose_record_may_be_written_later_is_not_given_to_another_schema(
    late_desk: Desk, subject: str
) -> None:
    desk, topic = late_desk, late_desk.topic
    assert isinstance(topic, LateTopic)
    desk("PUT", "/config", {"compatibility": "NONE"})
    lose(desk, "s", '"int"')
    assert desk.register(subject, '"string"') == 2
    assert desk.register(":.blue:s", '"string"') == 1, "another context has its own ids"
    topic.land()
    assert desk("GET", "/schemas/ids/1") == (200, {"schema": '"int"'})
    assert desk("GET", "/schemas/ids/2") == (200, {"schema": '"string"'})
    assert desk("GET", PATH) == (200, [1, 2] if subject == "s" else [1])
    assert desk.register("next", '"long"') == 3


def test_a_schema_that_is_registered_again_without_an_answer_has_one_id_and_version(late_desk: Desk) -> None:
    desk, topic = late_desk, late_desk.topic
    assert isinstance(topic, LateTopic)
    lose(desk, "s", '"int"')
    lose(desk, "s", '"int"')
    assert desk.register("other", '"int"') == 1
    assert desk.register("s", '"int"') == 1
    topic.land()
    assert desk("GET", "/schemas/ids/1/versions") == (
        200,
        [{"subject": "other", "version": 1}, {"subject": "s", "version": 1}],
    )
    assert desk.register("next", '"long"') == 2
    assert not topic.unread._rows


class SharedTopic(ListTopic):
    """Another registry writes a record just before the next one of this registry."""

    def __init__(self) -> None:
        self.other: list[Row] = []
        super().__init__()

    def write(self, caller: Any, rows: Sequence[Row]) -> State:
        other, self.other = self.other, []
        return super().write(caller, [*other, *rows])


@pytest.mark.parametrize("schema", ['"string"', '"int"'])
def test_an_id_that_another_registry_gave_first_is_replaced(schema: str) -> None:
    desk, topic = Desk(), SharedTopic()
    desk.topic = desk.registry.topic = topic
    first = SchemaRow("theirs", 1, 1, '"string"')
    topic.other = [(first.key(), first.value())]
    number = 1 if schema == first.schema else 2
    assert desk.register("ours", schema) == number
    for each in (desk, desk.again()):
        assert each("GET", "/schemas/ids/1") == (200, {"schema": '"string"'})
        assert each("GET", "/subjects/ours/versions/1")[1]["id"] == number
        assert each("GET", f"/schemas/ids/{number}") == (200, {"schema": schema})
        assert each.register("later", schema) == number


def collide(desk: Desk) -> None:
    """Version 1 of subject `ours` has the id of another registry's schema, as after a crash before
    it was written again."""
    rows = SchemaRow("theirs", 1, 1, '"string"'), SchemaRow("ours", 1, 1, '"int"')
    desk.topic.write(None, [(row.key(), row.value()) for row in rows])


def test_a_version_whose_id_is_of_another_schema_is_repaired_when_it_is_registered_again(desk: Desk) -> None:
    collide(desk)
    newer = SchemaRow("ours", 2, 2, '"string"')  # to which the old version is not compatible
    desk.topic.write(None, [(newer.key(), newer.value())])
    assert desk.register("ours", '"int"') == 3
    for each in (desk, desk.again()):
        assert each("GET", "/subjects/ours/versions") == (200, [1, 2])
        assert each("GET", "/subjects/ours/versions/1")[1]["id"] == 3
        assert each("GET", "/schemas/ids/1") == (200, {"schema": '"string"'})
        assert each("GET", "/schemas/ids/3") == (200, {"schema": '"int"'})
        assert each.register("ours", '"int"') == 3


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_version_whose_id_is_of_another_schema_is_repaired_when_it_is_looked_up(
    desk: Desk, is_deleted: bool
) -> None:
    collide(desk)
    if is_deleted:
        desk("DELETE", "/subjects/ours/versions/1")
    found = {"subject": "ours", "version": 1, "id": 2, "schema": '"int"'}
    for each in (desk, desk, desk.again()):
        assert each("POST", "/subjects/ours?deleted=true", {"schema": '"int"', "id": 1}) == (200, found)
    assert desk("GET", "/schemas/ids/1") == (200, {"schema": '"string"'})
    assert desk("GET", "/schemas/ids/2/versions?deleted=true") == (200, [{"subject": "ours", "version": 1}])
    assert desk("GET", "/subjects/ours/versions") == ((404, ANY) if is_deleted else (200, [1]))


def test_a_version_whose_id_is_of_another_schema_is_repaired_when_it_is_read(desk: Desk) -> None:
    """A serializer would write its records with that id."""
    collide(desk)
    assert desk("GET", "/schemas/ids/1/versions") == (200, [{"subject": "theirs", "version": 1}])
    for each in (desk, desk, desk.again()):
        for version in ("1", "latest"):
            assert each("GET", f"/subjects/ours/versions/{version}")[1]["id"] == 2
        assert each("GET", "/subjects/theirs/versions/1")[1]["id"] == 1


@pytest.mark.parametrize("by", ["rights", "READONLY", "IMPORT"])
def test_a_lookup_that_may_not_write_does_not_find_a_version_whose_id_is_of_another_schema(
    desk: Desk, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise Failure(HTTPStatus.FORBIDDEN, 40301, "no")

    collide(desk)
    if by != "rights":
        assert desk("PUT", "/mode?force=true", {"mode": by})[0] == 200
    else:
        monkeypatch.setattr(desk.topic, "check_rights", refuse)
    assert desk("POST", "/subjects/ours", {"schema": '"int"'})[1]["error_code"] == 40403
    assert desk("GET", "/subjects/ours/versions/1")[1]["error_code"] == 40403
    assert desk("GET", "/subjects/ours/versions/1/schema") == (200, "int")
    assert desk("POST", "/subjects/theirs", {"schema": '"string"'})[1]["id"] == 1


def test_an_id_of_another_schema_is_not_given_to_the_same_schema_of_another_subject(desk: Desk) -> None:
    collide(desk)
    assert desk.register("later", '"int"') == 2
    assert desk("GET", "/schemas/ids/2") == (200, {"schema": '"int"'})


def test_an_id_without_an_answer_that_another_registry_gave_meanwhile_is_not_given_again(
    late_desk: Desk,
) -> None:
    lose(late_desk, "s", '"int"')
    theirs = SchemaRow("theirs", 1, 1, '"string"')
    late_desk.topic.write(None, [(theirs.key(), theirs.value())])
    late_desk.topic.rows.clear()
    assert late_desk.register("other", '"int"') == 2
    assert len(late_desk.topic.rows) == 1, "it was written once"


def test_a_version_without_an_answer_that_another_registry_used_meanwhile_is_not_overwritten(
    late_desk: Desk,
) -> None:
    late_desk("PUT", "/config", {"compatibility": "NONE"})
    lose(late_desk, "s", '"int"')
    theirs = SchemaRow("s", 1, 5, '"string"')
    late_desk.topic.write(None, [(theirs.key(), theirs.value())])
    late_desk.register("s", '"int"')
    assert late_desk("GET", f"{PATH}/1")[1]["schema"] == '"string"'
    assert late_desk("GET", f"{PATH}/2")[1]["schema"] == '"int"'


@pytest.mark.parametrize("numbers", [{"id": 1}, {"id": 7, "version": 1}])
def test_an_import_does_not_overwrite_a_schema_that_may_be_written_later(
    late_desk: Desk, numbers: dict[str, int]
) -> None:
    desk = late_desk
    lose(desk, "s", '"int"')
    assert desk("PUT", "/mode", {"mode": "IMPORT"})[0] == 200
    assert desk("POST", PATH, {"schema": '"string"', **numbers})[1]["error_code"] == 42205
    assert desk("POST", PATH, {"schema": '"string"', "id": 7, "version": 2}) == (200, {"id": 7})
    assert desk("POST", PATH, {"schema": '"int"', "id": 1, "version": 1}) == (200, {"id": 1})


def test_an_import_whose_id_another_registry_gave_first_is_refused() -> None:
    desk, topic = Desk(), SharedTopic()
    desk.topic = desk.registry.topic = topic
    desk("PUT", "/mode", {"mode": "IMPORT"})
    first = SchemaRow("theirs", 1, 1, '"string"')
    topic.other = [(first.key(), first.value())]
    for _ in range(2):  # its record is in the topic then
        assert desk("POST", PATH, {"schema": '"int"', "id": 1, "version": 1})[1]["error_code"] == 42205


class RefusingTopic(LateTopic):
    """While `is_late`, writes are lost; while `is_full`, the broker refuses them."""

    is_full = False

    def write(self, caller: Any, rows: Sequence[Row]) -> State:
        if self.is_full:
            raise NotWritten(HTTPStatus.INTERNAL_SERVER_ERROR, 50001, "too large")
        return super().write(caller, rows)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_schema_that_the_broker_refuses_keeps_its_id_only_if_an_earlier_write_was_lost(
    is_lost: bool,
) -> None:
    desk, topic = Desk(), RefusingTopic()
    desk.topic = desk.registry.topic = topic
    desk("PUT", "/config", {"compatibility": "NONE"})
    if is_lost:
        lose(desk, "s", '"int"')
    topic.is_full = True
    assert desk("POST", PATH, {"schema": '"int"'})[1]["error_code"] == 50001
    topic.is_full = False
    number = 2 if is_lost else 1
    assert desk.register("s", '"string"') == number
    assert desk("GET", PATH) == (200, [number])


def test_a_schema_is_refused_when_no_id_is_left(desk: Desk) -> None:
    last = SchemaRow("theirs", 1, LARGEST, '"string"')
    desk.topic.write(None, [(last.key(), last.value())])
    assert desk("POST", PATH, {"schema": '"int"'})[1]["error_code"] == 42205
    assert desk.register("s", '"string"') == LARGEST
