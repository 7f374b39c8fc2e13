"""Callers of the topic of schemas whose quota is used up: they wait, and not with the lock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.console.caller import must_not_wait
from kbroker.http.console.refusal import quota_used_up
from kbroker.http.registry import answers
from kbroker.http.registry import topic as module
from kbroker.http.registry.answers import RegistryRequest
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import config_key, dump
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch

LONG_S = 60.0
LEVEL = dump({"compatibilityLevel": "NONE"})


class Throttled:
    """A caller of a broker with one topic, whose log is empty, and of which it knows the requests
    and where they wait. used_up: the answers to Fetch that have no partitions, from now on.
    meanwhile: by a request and whether it is sent with the lock, a change just before its next
    answer. written: a batch of another registry."""

    def __init__(self, topic: SchemaTopic) -> None:
        self.topic = topic
        self.asked: list[tuple[str, bool]] = []
        self.used_up = 0
        self.delays = False
        self.is_missing = False
        self.offset = 0
        self.written = b""
        self.meanwhile: dict[tuple[str, bool], Callable[[], object]] = {}

    @contextmanager
    def reserved(self, _: int | None) -> Iterator[None]:
        self._note("reserved")
        yield

    def ask(self, api: ApiKey, request: Any, **_: object) -> Any:
        self._note(api.name.lower())
        if self.delays and must_not_wait() and api is not ApiKey.PRODUCE:
            raise quota_used_up("broker")
        part = SimpleNamespace(error_code=0, leader_id=0, error_message=None, base_offset=self.offset)
        if api is ApiKey.METADATA:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.is_missing else 0
            topic = SimpleNamespace(
                error_code=code, partitions=[part], topic_id=b"1", topic_authorized_operations=-1
            )
            return SimpleNamespace(topics=[topic])
        if api is ApiKey.CREATE_TOPICS:
            self.is_missing &= request.validate_only
            return SimpleNamespace(topics=[part])
        if api is ApiKey.PRODUCE:
            return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])
        self.used_up -= 1
        part.records = self.written
        answer = [] if self.used_up >= 0 else [SimpleNamespace(partitions=[part])]
        return SimpleNamespace(error_code=0, responses=answer)

    def _note(self, name: str) -> None:
        """The request, and whether the topic is locked by it."""
        locked: list[bool] = []
        other = threading.Thread(target=lambda: locked.append(not is_free(self.topic.lock)))
        other.start()
        other.join(LONG_S)
        self.asked.append((name, locked[0]))
        self.meanwhile.pop(self.asked[-1], lambda: None)()

    def put_config(self) -> None:
        """A change: the level of subject s."""
        body = {"compatibility": "NONE"}
        answers.put_config(RegistryRequest(self.topic, self, "", parts={"subject": "s"}, body=body))

    def write(self) -> None:
        """Another registry writes the level of subject t."""
        self.written = build_batch([(config_key("t"), LEVEL, (), 0)])


def is_free(lock: Any) -> bool:
    found: bool = lock.acquire(blocking=False)
    if found:
        lock.release()
    return found


@pytest.fixture
def throttled() -> Any:
    return Throttled(SchemaTopic())


def test_a_reader_whose_quota_is_used_up_is_answered_later(throttled: Any) -> None:
    throttled.used_up = 3
    assert throttled.topic.refresh(throttled).versions("s") == []
    assert [name for name, _ in throttled.asked] == ["metadata", "fetch"] * 4


def test_a_reader_waits_for_its_quota_up_to_a_bound(throttled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", -1.0)
    throttled.used_up = 3
    with pytest.raises(Failure, match="quota") as refused:
        throttled.topic.refresh(throttled)
    assert (refused.value.status, refused.value.code) == (HTTPStatus.SERVICE_UNAVAILABLE, 50003)


@pytest.mark.parametrize("delays", [False, True])
def test_a_change_reads_and_writes_with_the_lock_and_waits_for_nothing(throttled: Any, delays: bool) -> None:
    """Whatever the broker would let wait is not sent then: the state was read before, and the
    record is applied as it was written."""
    throttled.delays = delays
    throttled.put_config()
    before = ["metadata", "metadata", "fetch", "reserved", "metadata", "fetch"]
    locked = ["metadata", "produce"] if delays else ["metadata", "fetch", "produce"]
    assert throttled.asked == [*((name, False) for name in before), *((name, True) for name in locked)]
    assert throttled.topic.state.levels == {"s": {"compatibilityLevel": "NONE"}}
    assert throttled.topic._next == 1


def test_a_change_of_a_topic_that_was_read_reads_once_before_the_lock(throttled: Any) -> None:
    throttled.put_config()
    throttled.asked.clear()
    throttled.offset = 1
    throttled.put_config()
    assert [name for name, locked in throttled.asked if not locked] == [
        "metadata",  # the rights
        "reserved",
        "metadata",
        "fetch",
    ]


def test_a_change_that_another_thread_reads_first_is_answered(throttled: Any) -> None:
    """Its record is in the state then, and is not applied again."""
    topic, record = throttled.topic, SimpleNamespace(offset=0, key=config_key("s"), value=LEVEL)
    throttled.delays = True
    throttled.meanwhile["produce", True] = lambda: topic._apply(topic.state, [record], 1)
    throttled.put_config()
    assert topic.state.levels == {"s": {"compatibilityLevel": "NONE"}}
    assert topic._next == 1


def test_a_change_knows_what_another_registry_has_written_while_it_waited(throttled: Any) -> None:
    throttled.delays = True
    throttled.meanwhile["reserved", False] = throttled.write
    with throttled.topic.changing(throttled) as state:
        assert state.levels == {"t": {"compatibilityLevel": "NONE"}}


def test_a_state_that_is_read_again_from_its_start_is_not_changed(throttled: Any) -> None:
    """Another thread has begun to, and a quota is used up."""
    topic = throttled.topic
    throttled.write()
    throttled.delays = True
    throttled.meanwhile["metadata", True] = lambda: topic._forget(topic.state)
    with pytest.raises(Failure, match="quota") as refused, topic.changing(throttled):
        pytest.fail("a change would not know the schemas")
    assert (refused.value.status, refused.value.code) == (HTTPStatus.SERVICE_UNAVAILABLE, 50003)


def test_a_missing_topic_is_created_before_it_is_locked(throttled: Any) -> None:
    """With the lock it never would be, if the broker would let that wait."""
    throttled.delays = throttled.is_missing = True
    throttled.put_config()
    assert throttled.topic.state.levels == {"s": {"compatibilityLevel": "NONE"}}
    assert [one for one in throttled.asked if one[1]] == [("metadata", True), ("produce", True)]
    assert throttled.asked.count(("create_topics", False)) == 2, "one checks the rights"


def test_records_before_a_written_one_are_read(throttled: Any) -> None:
    throttled.offset = 5
    throttled.topic.write(throttled, [(b"{}", b"{}")])
    assert [name for name, _ in throttled.asked] == ["metadata", "produce", "metadata", "fetch"]
    assert throttled.topic._next == 0
