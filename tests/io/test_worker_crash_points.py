"""Crash points of an IO worker."""

from pathlib import Path

import pytest

from kbroker.io import worker
from tests.io.append import drain_case


def test_crash_points_are_reached_around_each_append_also_after_a_table_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    monkeypatch.setattr(worker, "crash_point", reached.append)
    monkeypatch.setattr(drain_case, "Drain", worker.DrainWithCrashPoints)
    case = drain_case.DrainCase(tmp_path)
    for _ in range(2):
        case.push(drain_case.batch())
        assert case.drain.run() == 1
        assert reached == [worker.BEFORE_WRITE, worker.WRITTEN]
        reached.clear()
        case.drain.producers.make_room(case.drain.producers.room + 1)
    assert case.drain.run() == 0
    assert reached == []
