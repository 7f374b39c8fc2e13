"""Callers of the topic of schemas whose quota is used up: they wait, and not with the lock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.http.console.caller import is_in_hurry
from kbroker.http.console.refusal import quota_used_up
from kbroker.http.registry import answers
from kbroker.http.registry import topic as module
from kbroker.http.registry.answers import RegistryRequest
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.topic import SchemaTopic
from kbroker.protocol.api_keys import ApiKey

LONG_S = 60.0


class Throttled:
    """A caller of a broker with one topic, whose log is empty, and of which it knows the requests
    and where they wait. used_up: the answers to Fetch that have no partitions, from now on."""

    def __init__(self, topic: SchemaTopic) -> None:
        self.topic = topic
        self.asked: list[tuple[str, bool]] = []
        self.used_up = 0
        self.delays = False
        self.offset = 0

    @contextmanager
    def ready(self, _: int | None) -> Iterator[None]:
        self._note("ready")
        yield

    def ask(self, api: ApiKey, *_: object, **__: object) -> Any:
        self._note(api.name.lower())
        if self.delays and is_in_hurry() and api is not ApiKey.PRODUCE:
            raise quota_used_up("broker")
        part = SimpleNamespace(error_code=0, leader_id=0, error_message=None, base_offset=self.offset)
        if api is ApiKey.METADATA:
            topic = SimpleNamespace(
                error_code=0, partitions=[part], topic_id=b"1", topic_authorized_operations=-1
            )
            return SimpleNamespace(topics=[topic])
        if api is ApiKey.PRODUCE:
            return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])
        self.used_up -= 1
        part.records = b""
        answer = [] if self.used_up >= 0 else [SimpleNamespace(partitions=[part])]
        return SimpleNamespace(error_code=0, responses=answer)

    def _note(self, name: str) -> None:
        """The request, and whether the topic is locked by it."""
        locked: list[bool] = []
        other = threading.Thread(target=lambda: locked.append(not is_free(self.topic.lock)))
        other.start()
        other.join(LONG_S)
        self.asked.append((name, locked[0]))


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
    body = {"compatibility": "NONE"}
    answers.put_config(RegistryRequest(throttled.topic, throttled, "", parts={"subject": "s"}, body=body))
    names = ["metadata", "metadata", "fetch", "ready", "metadata", *([] if delays else ["fetch"]), "produce"]
    assert throttled.asked == [(name, number > 3) for number, name in enumerate(names)]
    assert throttled.topic.state.levels == {"s": {"compatibilityLevel": "NONE"}}
    assert throttled.topic._next == 1


def test_records_before_a_written_one_are_read(throttled: Any) -> None:
    throttled.offset = 5
    throttled.topic.write(throttled, [(b"{}", b"{}")])
    assert [name for name, _ in throttled.asked] == ["metadata", "produce", "metadata", "fetch"]
    assert throttled.topic._next == 0
