"""Registering: decided without the lock, for the state that the lock then protects; ids that are
given once."""

import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.registry import compatibility, deadline
from kbroker.http.registry.failure import unavailable
from kbroker.http.registry.formats import parse
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import Row
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
    """As each serialiser asks when it starts. It needs no right to write either."""
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
