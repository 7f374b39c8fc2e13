"""A time limit for work on schemas."""

import pytest

from kbroker.http.registry import deadline
from kbroker.http.registry.deadline import Deadline


def test_a_deadline_is_over_after_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 104.0, 104.5])
    monkeypatch.setattr(deadline, "monotonic", lambda: next(times))
    limit = Deadline(4.0)
    assert not limit.is_over
    assert limit.is_over
