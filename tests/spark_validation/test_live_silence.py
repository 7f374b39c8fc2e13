"""A run whose conductor was killed gets no end: the live judge ends when nothing comes any more."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.live import job
from spark_validation.live.job import LiveJob
from tests.spark_validation.world import clean
from tests.spark_validation.world_files import write

pytestmark = pytest.mark.spark

PATIENCE = 10.0
PLACE = ("calm", 0, 0)


class Clock:
    """The time of the job, which its naps move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Idle:
    """A stream. arrives: what comes while the job waits for the rows that are there."""

    def __init__(self, arrives: Callable[[], None] = lambda: None) -> None:
        self.waited = 0
        self._arrives = arrives

    def check(self) -> None:
        pass

    def process_available(self) -> None:
        self.waited += 1
        if self.waited == 1:
            self._arrives()


class Unjudged(LiveJob):
    def judge(self, ended: bool) -> None:
        """Its streams have no rows."""


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Unjudged, Clock]:
    write(tmp_path, [clean("calm", 1)])
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended_ns": None}))
    clock = Clock()
    monkeypatch.setattr(job, "time", clock)
    options = argparse.Namespace(
        history=tmp_path / "run", topics=None, seconds=0, grace=0.0, patience=PATIENCE
    )
    nothing: Any = None
    return Unjudged(nothing, options), clock


def test_a_run_without_an_end_is_not_followed_for_ever(followed: tuple[Unjudged, Clock]) -> None:
    live, clock = followed
    stream: Any = Idle()
    live.watch([stream])
    assert clock.now == 100 + PATIENCE + 2
    assert stream.waited == 2
    assert live.verdict.missing[-1] == "the run has no end, and nothing came for 12 s"


@pytest.mark.parametrize("kind", ["sent", "held", "reads"])
def test_a_late_record_begins_the_silence_again(followed: tuple[Unjudged, Clock], kind: str) -> None:
    live, clock = followed
    entry: dict[str, Any] = {"reads": 1, "altered": []} if kind == "reads" else {"buckets": [(*PLACE, 1, 7)]}
    stream: Any = Idle(lambda: live.merge(kind, entry))
    live.watch([stream])
    assert clock.now == 100 + 2 * (PATIENCE + 2)


def test_a_micro_batch_without_a_record_is_nothing(followed: tuple[Unjudged, Clock]) -> None:
    live, clock = followed
    stream: Any = Idle(lambda: live.merge("reads", {"reads": 0, "altered": []}))
    live.watch([stream])
    assert clock.now == 100 + PATIENCE + 2
