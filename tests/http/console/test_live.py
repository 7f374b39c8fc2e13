"""What the overview shows at first, and what its charts show of times when it was not watched."""

from pathlib import Path

import pytest

from kbroker.http.console import live
from kbroker.http.console.live import LAG_S, WATCHED_FOR_S, Live
from kbroker.http.console.readings import Reader
from kbroker.http.console.space import Space
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from kbroker.ipc.log_dir_errors import LogDirErrors
from tests.http.scene import Scene


class Case:
    """A group with a lag of 40 records; its overview, and its clock."""

    def __init__(self, folder: Path) -> None:
        scene = Scene(folder)
        self.scene = scene
        scene.shared.slots[scene.topic("orders")[0], Slot.HIGH_WATERMARK] = 100
        self.commit(60)
        reader = Reader(scene.shared, 0, (str(folder),))
        space = Space(LogDirErrors([str(folder)], scene.shared), scene.collector.forecasts)
        self.live = Live(scene.shared, scene.view, scene.health, reader, space, lambda: scene.now)

    def commit(self, offset: int) -> None:
        self.scene.view.summaries = (
            GroupSummary("billing", "classic", "Stable", 1, {"orders": {0: offset}}),
        )

    def charted_lag(self) -> float | None:
        """Of a sample that is taken now."""
        self.live.take()
        lag: float | None = self.live.history()[-1]["lag"]
        return lag


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_the_first_sample_that_is_shown_has_the_lag(case: Case) -> None:
    case.live.take()  # nothing watches yet
    found = case.live.latest()
    assert (found["lag"], found["topic_lag"]) == (40, {"billing": {"orders": 40}})


def test_the_first_sample_of_the_thread_waits_for_controls_topics(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = case.scene.view.informed
    news.clear()
    samples_before: list[int] = []

    def arrive(_: float) -> bool:
        samples_before.append(case.live.number)
        news.set()
        return True

    monkeypatch.setattr(news, "wait", arrive)
    case.live.start()
    with case.live.changed:
        assert case.live.changed.wait_for(case.live.history, 60)
    case.live.close()
    assert samples_before == [0]
    assert case.live.latest()["ready"]


def test_a_sample_that_fails_is_not_the_last_one(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, the thread ended, and the overview showed its last sample from then on."""
    monkeypatch.setattr(live, "WATCHED_S", 0.0)
    monkeypatch.setattr(live, "UNWATCHED_S", 0.0)
    take, failures = case.live.take, [ValueError("first"), ValueError("second")]

    def failing() -> object:
        if failures:
            raise failures.pop(0)
        return take()

    monkeypatch.setattr(case.live, "take", failing)
    case.live.start()
    with case.live.changed:
        assert case.live.changed.wait_for(case.live.history, 60)
    case.live.close()
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["the overview of the console has no new sample"]


def test_a_lag_from_the_last_time_is_not_shown_as_todays(case: Case) -> None:
    assert case.live.latest()["lag"] == 40
    case.scene.now += WATCHED_FOR_S + 1
    case.commit(90)
    case.live.take()
    assert case.live.latest()["lag"] == 10


def test_while_it_is_watched_the_lag_is_read_again_after_some_seconds(case: Case) -> None:
    case.live.latest()
    case.commit(90)
    case.scene.now += LAG_S - 1
    assert case.charted_lag() == 40
    case.scene.now += 1
    assert case.charted_lag() == 10


def test_the_chart_has_no_lag_for_times_when_nothing_watched(case: Case) -> None:
    assert case.charted_lag() is None
    case.live.latest()
    assert case.charted_lag() == 40
    case.scene.now += WATCHED_FOR_S + 1
    assert case.charted_lag() is None
