"""The tuner's findings in the http process: bounded, kept for a moment, one check at a time."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.tuner import FRESH_S, KEPT_S, WATCH_S, Readings, Tuner, check
from tests.http.scene import Scene

CONFIG = BrokerConfig({})


@dataclass
class Looks:
    """A check that ends when the test lets it; counts itself."""

    gate: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    failure: Exception | None = None

    def __call__(self, config: BrokerConfig) -> tuple[tuple[str, ...], list[Any]]:
        self.count += 1
        assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        return ("copies 1",), [{"knob": str(self.count)}]


@dataclass
class Case:
    looks: Looks
    now: float = 100.0

    def tuner(self, deadline_s: float = 30.0) -> Tuner:
        return Tuner(self.looks, lambda: self.now, deadline_s)


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case(Looks())
    made.looks.gate.set()
    yield made
    made.looks.gate.set()


def test_findings_are_kept_for_a_moment(case: Case) -> None:
    tuner = case.tuner()
    assert tuner.checked(CONFIG).findings == ({"knob": "1"},)
    case.now += FRESH_S - 0.1
    assert tuner.checked(CONFIG).findings == ({"knob": "1"},)
    case.now += 0.2
    assert tuner.checked(CONFIG).findings == ({"knob": "2"},)


def test_a_check_that_hangs_does_not_block_others_and_is_not_started_twice(case: Case) -> None:
    tuner = case.tuner(deadline_s=0.0)
    case.looks.gate.clear()
    for _ in range(3):
        with pytest.raises(Refusal, match="take long") as refused:
            tuner.checked(CONFIG)
        assert refused.value.status == 503
    assert sum(each.name == "console-tuner" for each in threading.enumerate()) == 1
    case.looks.gate.set()
    for thread in threading.enumerate():
        if thread.name == "console-tuner":
            thread.join(30)
    assert case.looks.count == 1
    assert tuner.checked(CONFIG).workload == ("copies 1",)


def test_requests_at_a_time_share_one_check(case: Case) -> None:
    tuner = case.tuner()
    case.looks.gate.clear()
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(tuner.checked(CONFIG))) for _ in range(5)]
    for thread in threads:
        thread.start()
    case.looks.gate.set()
    for thread in threads:
        thread.join(30)
    assert len(found) == 5
    assert len({id(each) for each in found}) == case.looks.count == 1


def test_a_check_that_fails_says_why_and_the_next_one_is_tried(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    tuner = case.tuner()
    case.looks.failure = ValueError("host.json: not an object")
    with pytest.raises(Refusal, match=r"host\.json: not an object"):
        tuner.checked(CONFIG)
    assert "the checks of this host failed" in caplog.text
    case.looks.failure = None
    case.now += FRESH_S
    assert tuner.checked(CONFIG).findings == ({"knob": "2"},)


def findings(folder: Path, offline: tuple[str, ...] = ()) -> dict[str, Any]:
    """By knob, of a broker that is only shared memory."""
    scene = Scene(folder)
    scene.topic("orders", 2)
    requested: list[str] = []

    def page(names: Any) -> str:
        requested.extend(names)
        return scene.collector.text(names=names).decode()

    lines, found = check(scene.context.config, Readings(page, sleep=lambda _: None), offline)
    assert requested
    assert "partitions 2 (/metrics)" in lines
    return {row["knob"]: row for row in found}


def test_the_running_broker_is_among_the_findings(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found["broker: log dirs offline"]["now"] == "0"
    assert found["broker: rows of the partition table in use"]["severity"] == "ok"
    assert {row["severity"] for row in found.values()} <= {"serious", "advice", "note", "ok", "unseen"}


def test_a_check_compares_with_the_one_before_and_waits_only_for_the_first() -> None:
    now, counted = 1000.0, 10**6
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waited.append(seconds)

    def page(_: Any) -> str:
        nonlocal counted
        counted += 7
        return f'kbroker_info{{version="1"}} 1\nkbroker_flush_seconds_count {counted}\n'

    readings = Readings(page, lambda: now, sleep)
    for later_s, window_s, waits in ((0.0, WATCH_S, 1), (KEPT_S, KEPT_S, 1), (KEPT_S + 1, WATCH_S, 2)):
        now += later_s
        live, recent = readings.take()
        assert recent.total("kbroker_flush_seconds_count") == 7
        assert (recent.seconds, len(waited)) == (window_s, waits)
        assert live.total("kbroker_flush_seconds_count") == counted


def test_log_dirs_are_writable_when_the_broker_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # as for a process that gave up its rights

    def writable(offline: tuple[str, ...]) -> list[str]:
        found = findings(tmp_path / str(len(offline)), offline)
        return [row["severity"] for knob, row in found.items() if knob.endswith("written to by this user")]

    for number in range(2):
        (tmp_path / str(number)).mkdir()
    assert writable(()) == ["ok"]
    assert writable((str(tmp_path / "1"),)) == ["serious"]
