"""The topic of schemas: a caller for whom the broker takes long delays no other one."""

import threading
from collections.abc import Sequence
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.registry import compatibility, deadline
from kbroker.http.registry import topic as module
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.formats import parse
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import SchemaRow
from tests.http.registry.desk import Desk, record

LONG_S = 60.0


def row(version: int) -> Any:
    """A record at offset `version`."""
    found = SchemaRow("s", version, version, "{}", "JSON", (), False, ())
    return SimpleNamespace(offset=version, key=found.key(), value=found.value())


class Log:
    """Stands for the broker: the records of the topic, as each caller reads them. gates: callers
    whose answers wait. fails: code of the next answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records = [row(version) for version in range(1, 4)]
        self.gates: dict[str, threading.Event] = {}
        self.asked = threading.Event()
        self.fails = ""
        monkeypatch.setattr(module, "_leader", lambda _: 0)
        monkeypatch.setattr(module, "Scan", self._scan)

    def _scan(self, caller: str, _: str, __: int, ___: int, start: int, committed: bool) -> Any:
        assert not committed
        scan = SimpleNamespace(next_offset=start)

        def records() -> Sequence[Any]:
            code, self.fails = self.fails, ""
            if code:
                raise Refusal(HTTPStatus.CONFLICT, code, "no")
            found = [one for one in self.records if one.offset >= start]
            if caller in self.gates:
                self.asked.set()
                assert self.gates[caller].wait(LONG_S)
            scan.next_offset = found[-1].offset + 1 if found else start
            return found

        scan.records = records
        return scan


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def versions(topic: SchemaTopic, caller: Any) -> list[int]:
    return [one.version for one in topic.refresh(caller).versions("s")]


class SlowReader:
    """A caller that the broker lets wait for the fourth record, when the topic has been read."""

    def __init__(self, log: Log, topic: SchemaTopic) -> None:
        assert versions(topic, "ann") == [1, 2, 3]
        log.gates["slow"] = self._gate = threading.Event()
        log.records.append(row(4))
        self._found: list[list[int]] = []
        self._thread = threading.Thread(target=lambda: self._found.append(versions(topic, "slow")))
        self._thread.start()
        assert log.asked.wait(LONG_S)

    def versions(self) -> list[list[int]]:
        """What it finds, once the broker answers."""
        self._gate.set()
        self._thread.join(LONG_S)
        return self._found


def test_a_caller_that_the_broker_lets_wait_delays_no_other_one(log: Log) -> None:
    """By a quota, or because others have guessed at its password."""
    topic = SchemaTopic()
    slow = SlowReader(log, topic)
    log.records.append(row(5))
    done: list[list[int]] = []
    other = threading.Thread(target=lambda: done.append(versions(topic, "ann")), daemon=True)
    other.start()
    other.join(LONG_S)
    found = slow.versions()
    assert done == [[1, 2, 3, 4, 5]]
    assert found == [[1, 2, 3, 4, 5]], "records that were applied meanwhile are not applied again"


def test_records_of_a_deleted_topic_are_not_applied_to_the_next_one(log: Log) -> None:
    topic = SchemaTopic()
    slow = SlowReader(log, topic)
    log.records = [row(7)]
    log.fails = "OFFSET_OUT_OF_RANGE"
    assert versions(topic, "ann") == [7]
    assert slow.versions() == [[7]]
    log.fails = "UNKNOWN_TOPIC_OR_PARTITION"
    assert versions(topic, "ann") == []
    assert versions(topic, "ann") == [7]


def hold(lock: Any, release: threading.Event) -> threading.Thread:
    """A thread that holds a lock until it is released."""
    held = threading.Event()

    def run() -> None:
        with lock:
            held.set()
            release.wait(LONG_S)

    thread = threading.Thread(target=run)
    thread.start()
    assert held.wait(LONG_S)
    return thread


def test_a_change_waits_for_changes_of_others_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "WAIT_S", 0.0)
    topic, release = SchemaTopic(), threading.Event()
    other = hold(topic.lock, release)
    with pytest.raises(Failure, match="at the same time") as refused, topic.changing():
        pass
    release.set()
    other.join(LONG_S)
    assert refused.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    with topic.changing(), topic.changing():
        pass


def test_a_schema_is_parsed_before_its_change_excludes_others(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    free: list[bool] = []

    def parsing(*args: Any) -> Any:
        def attempt() -> None:
            free.append(desk.topic.lock.acquire(blocking=False))
            if free[-1]:
                desk.topic.lock.release()

        other = threading.Thread(target=attempt)
        other.start()
        other.join(LONG_S)
        return parse(*args)

    monkeypatch.setattr(compatibility, "parse", parsing)
    desk.register("s", record("a", name="ParsedBeforeTheLock"))
    assert free == [True]
