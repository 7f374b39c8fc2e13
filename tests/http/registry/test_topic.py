"""The topic of schemas: a caller for whom the broker takes long, or who has no rights, delays no
other one."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.acls import READ, WRITE
from kbroker.http.console import caller as caller_module
from kbroker.http.console.refusal import Refusal, check, not_served, unavailable
from kbroker.http.registry import answers, deadline
from kbroker.http.registry import topic as module
from kbroker.http.registry.answers import RegistryRequest
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.topic import NotWritten, SchemaTopic
from kbroker.http.registry.topic_records import SchemaRow
from kbroker.protocol.errors import ErrorCode

LONG_S = 60.0


def row(version: int) -> Any:
    """A record at offset `version`."""
    found = SchemaRow("s", version, version, "{}", "JSON", (), False, ())
    return SimpleNamespace(offset=version, key=found.key(), value=found.value())


class Log:
    """Stands for the broker: the records of the topic, as each caller reads them. gates: callers
    whose answers wait. readers: callers without the right to write. fails: code of the next
    answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records = [row(version) for version in range(1, 4)]
        self.gates: dict[str, threading.Event] = {}
        self.readers: set[str] = set()
        self.asked = threading.Event()
        self.fails = ""
        self.topic_id = b"1"
        monkeypatch.setattr(module, "_leader_and_id", lambda _: (0, self.topic_id))
        monkeypatch.setattr(module, "_check_writer", self._check_writer)
        monkeypatch.setattr(module, "Scan", self._scan)
        monkeypatch.setattr(SchemaTopic, "_ready", lambda *_: nullcontext())

    def _check_writer(self, caller: str) -> None:
        if caller in self.readers:
            check(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "_schemas")

    def _scan(self, caller: str, _: str, __: int, ___: int, start: int, committed: bool, keeps: bool) -> Any:
        assert keeps
        assert not committed
        scan = SimpleNamespace(next_offset=start)

        def records() -> Sequence[Any]:
            code, self.fails = self.fails, ""
            if code:
                raise Refusal(HTTPStatus.CONFLICT, code, "no")
            start = scan.next_offset
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
        assert versions(topic, "ann") == [one.offset for one in log.records]
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


def test_readers_of_an_empty_topic_do_not_wait_for_one_another(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 10 * LONG_S)
    log.records = []
    topic = SchemaTopic()
    slow = SlowReader(log, topic)
    done: list[list[int]] = []
    other = threading.Thread(target=lambda: done.append(versions(topic, "ann")), daemon=True)
    other.start()
    other.join(LONG_S)
    found = slow.versions()
    assert done == [[4]]
    assert found == [[4]]


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


@pytest.mark.parametrize("last", [2, 3, 4])
def test_a_topic_that_was_created_again_is_read_from_its_start(log: Log, last: int) -> None:
    """Also if nobody read it meanwhile, and its log has as many records as before, or more."""
    topic = SchemaTopic()
    assert versions(topic, "ann") == [1, 2, 3]
    log.topic_id = b"2"
    log.records = [row(0), row(last)]
    assert versions(topic, "ann") == versions(topic, "ann") == [0, last]


def test_a_slow_reader_applies_no_records_to_a_topic_that_was_created_again(log: Log) -> None:
    topic = SchemaTopic()
    slow = SlowReader(log, topic)
    log.topic_id = b"2"
    log.records = [row(7)]
    assert versions(topic, "ann") == [7]
    assert slow.versions() == [[7]]
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


def test_a_change_waits_for_changes_of_others_up_to_a_bound(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann: Any = "ann"
    monkeypatch.setattr(deadline, "WAIT_S", 0.0)
    topic, release = SchemaTopic(), threading.Event()
    other = hold(topic.lock, release)
    with pytest.raises(Failure, match="at the same time") as refused, topic.changing(ann):
        pass
    release.set()
    other.join(LONG_S)
    assert refused.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    with topic.changing(ann), topic.changing(ann):
        pass


CHANGES = [
    answers.register,
    answers.delete_subject,
    answers.delete_version,
    answers.put_config,
    answers.delete_config,
    answers.put_mode,
    answers.delete_mode,
]
"""All functions that write."""
Change = Callable[[RegistryRequest], Any]


def requested(topic: SchemaTopic, caller: Any) -> RegistryRequest:
    """A request for any of the changes; its schema is new."""
    body = {"schema": '{"title":"new"}', "schemaType": "JSON", "compatibility": "NONE", "mode": "READWRITE"}
    return RegistryRequest(topic, caller, "cluster", parts={"subject": "s", "version": "1"}, body=body)


class NeverLocked:
    """Stands for the lock."""

    def acquire(self, timeout: float) -> bool:
        pytest.fail("the topic is locked")


@pytest.mark.parametrize("change", CHANGES)
def test_a_caller_without_the_right_to_write_does_not_lock_the_topic(log: Log, change: Change) -> None:
    """Whatever its quota is, its changes delay those of no other caller."""
    topic: Any = SchemaTopic()
    topic.lock = NeverLocked()
    log.readers.add("reader")
    with pytest.raises(Failure) as refused:
        change(requested(topic, "reader"))
    assert (refused.value.status, refused.value.code) == (HTTPStatus.FORBIDDEN, 40301)


@pytest.mark.parametrize("change", CHANGES)
def test_a_caller_waits_for_its_quota_before_it_locks_the_topic(
    log: Log, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = SchemaTopic()
    monkeypatch.setattr(topic, "write", lambda *_: topic.state)
    log.gates["slow"] = gate = threading.Event()

    def run() -> None:
        with suppress(Failure):  # nothing is configured or deleted yet
            change(requested(topic, "slow"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert log.asked.wait(LONG_S)
    is_free = topic.lock.acquire(blocking=False)
    if is_free:
        topic.lock.release()
    gate.set()
    thread.join(LONG_S)
    assert is_free
    assert not thread.is_alive()


def test_requests_wait_for_no_quota_while_the_topic_is_locked(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waits: list[bool] = []

    def place(_: object) -> tuple[int, bytes]:
        no_waits.append(caller_module._NO_WAITS.get())
        return 0, b"1"

    monkeypatch.setattr(module, "_leader_and_id", place)
    ann: Any = "ann"
    topic = SchemaTopic()
    with topic.changing(ann):
        versions(topic, ann)
    versions(topic, ann)
    assert no_waits == [False, True, True, False]


@pytest.mark.parametrize(
    ("codes", "is_certain"),
    [
        ([ErrorCode.MESSAGE_TOO_LARGE], True),
        ([ErrorCode.TOPIC_AUTHORIZATION_FAILED], True),
        ([ErrorCode.REQUEST_TIMED_OUT], False),
        ([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND], False),
        ([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE], False),
    ],
)
def test_records_are_certainly_not_written_if_the_broker_refuses_the_first_attempt(
    codes: list[ErrorCode], is_certain: bool, log: Log
) -> None:
    """An attempt before it may have appended them."""
    found = iter(codes)

    def ask(*_: object, **__: object) -> Any:
        part = SimpleNamespace(error_code=next(found), error_message=None)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])

    caller: Any = SimpleNamespace(ask=ask)
    with pytest.raises(Failure, match=codes[-1].name) as refused:
        SchemaTopic().write(caller, [(b"{}", b"{}")])
    assert isinstance(refused.value, NotWritten) is is_certain


@pytest.mark.parametrize("fails", ["leader", "connection", "creation", "answer"])
def test_records_of_a_write_that_was_never_sent_are_certainly_not_written(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(_: object) -> tuple[int, bytes]:
        if fails == "leader":
            raise unavailable("the broker did not answer")
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if fails == "creation" else 0, "_schemas")
        return 0, b"1"

    def ask(*_: object, **__: object) -> Any:
        raise (unavailable if fails == "answer" else not_served)("no")

    monkeypatch.setattr(module, "_leader_and_id", place)
    caller: Any = SimpleNamespace(ask=ask)
    with pytest.raises(Failure) as refused:
        SchemaTopic().write(caller, [(b"{}", b"{}")])
    assert isinstance(refused.value, NotWritten) is (fails != "answer")
    assert refused.value.code == 50003


class Answering:
    """A caller whose requests all have one answer."""

    def __init__(self, topic: Any) -> None:
        self.requests: list[Any] = []
        self._topic = topic

    def ask(self, _: object, request: Any, **__: object) -> Any:
        self.requests.append(request)
        return SimpleNamespace(topics=[self._topic])


@pytest.mark.parametrize("operations", [READ, WRITE])
def test_the_right_to_write_is_one_of_the_authorized_operations(operations: int) -> None:
    found = SimpleNamespace(error_code=0, partitions=[], topic_authorized_operations=1 << operations)
    caller: Any = Answering(found)
    if operations == WRITE:
        SchemaTopic().check_rights(caller)
    else:
        with pytest.raises(Failure) as refused:
            SchemaTopic().check_rights(caller)
        assert refused.value.status is HTTPStatus.FORBIDDEN
    assert caller.requests[0].include_topic_authorized_operations


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_missing_topic_is_not_created_by_a_check_of_rights(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "_schemas")

    monkeypatch.setattr(module, "_check_writer", missing)
    caller: Any = Answering(SimpleNamespace(error_code=code, error_message=None))
    if code:
        with pytest.raises(Failure) as refused:
            SchemaTopic().check_rights(caller)
        assert refused.value.status is HTTPStatus.FORBIDDEN
    else:
        SchemaTopic().check_rights(caller)
    assert [one.validate_only for one in caller.requests] == [True]


@pytest.mark.parametrize(
    "asks",
    [
        lambda topic: topic.refresh(None),
        lambda topic: topic.check_rights(None),
        lambda topic: topic.write(None, [(b"{}", b"{}")]),
    ],
    ids=["refresh", "check_rights", "write"],
)
def test_a_broker_that_is_too_busy_is_no_error_of_the_store(
    asks: Callable[[SchemaTopic], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may try again."""
    text = "too many requests at the same time; try again"

    def refuse(_: object) -> None:
        raise unavailable(text)

    monkeypatch.setattr(module, "_leader_and_id", refuse)
    monkeypatch.setattr(module, "_check_writer", refuse)
    with pytest.raises(Failure) as refused:
        asks(SchemaTopic())
    found = refused.value
    assert (found.status, found.code, found.text) == (HTTPStatus.SERVICE_UNAVAILABLE, 50003, text)
    assert found.is_busy
