"""Batches that the kernel leaves to Python: thousands of one request are taken bit by bit."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.net.produce.checks import TAKEN_AT_ONCE, ProduceChecks
from kbroker.net.rows import Event, EventKind, Result

COUNT = 5 * TAKEN_AT_ONCE + 3
REASON = 9


def batches_and_others(requests: int) -> tuple[ProduceChecks, Any]:
    """COUNT batches of so many requests, with another event after every fourth; the events."""
    results = Result.table(COUNT)
    results[:, Result.REQUEST] = np.arange(COUNT) % requests
    words: Any = SimpleNamespace(results=results, shared=SimpleNamespace(slots=None))
    rows = []
    for number in range(COUNT):
        rows.append((EventKind.CHECK_BATCH, 1, number, REASON, 0))
        if number % 4 == 0:
            rows.append((EventKind.ADVANCED, 0, number, 0, 0))
    return ProduceChecks(words, words, lambda _: None, lambda: None), np.array(rows, np.int64)


def looked_at(taken: ProduceChecks, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(taken, "_check_batch", lambda result, *_: found.append(result))
    assert not taken._process(0, time.monotonic_ns() + 10**12)
    return found


@pytest.mark.parametrize("requests", [1, 7])
def test_many_batches_are_checked_in_their_order(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    taken, events = batches_and_others(requests)
    others = taken.take_many(events)
    assert others[:, Event.A].tolist() == list(range(0, COUNT, 4))
    assert set(others[:, Event.KIND].tolist()) == {EventKind.ADVANCED}
    assert taken.waiting
    found = looked_at(taken, monkeypatch)
    assert sorted(found) == list(range(COUNT))
    for request in range(requests):
        assert (own := [result for result in found if result % requests == request]) == sorted(own)
    assert not taken.waiting


def test_a_request_is_not_decided_before_all_its_batches_are() -> None:
    taken, events = batches_and_others(1)
    taken.take_many(events)
    assert taken.undecided == {0: COUNT}


def test_a_turn_takes_no_more_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, events = batches_and_others(1)
    taken.take_many(events)
    assert not taken._unchecked
    now = iter([0, 2])
    monkeypatch.setattr("kbroker.net.produce.checks.time.monotonic_ns", lambda: next(now))
    assert taken._process(0, 1)
    assert [len(batches) for batches in taken._unchecked.values()] == [TAKEN_AT_ONCE]
