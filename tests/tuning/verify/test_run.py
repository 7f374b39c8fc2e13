from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots
from tests.tuning.verify.samples import QUEUE, Bench, broker_change, host_change, value_of
from tuning.host.roots import Roots
from tuning.verify.broker import TurnFailed
from tuning.verify.change import Change
from tuning.verify.decision import Verdict
from tuning.verify.figures import Figures
from tuning.verify.host_change import HostValues
from tuning.verify.plan import Plan
from tuning.verify.run import Verification

Speed = Callable[[Mapping[str, str], str], tuple[float, float]]


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """A host whose queue reads 128 KiB ahead."""
    return FakeRoots(tmp_path / "root").sys(QUEUE, "128\n").roots


def run(
    tmp_path: Path, roots: Roots, speed: Speed, *changes: Change, limit_s: float = 1e6
) -> tuple[Verification, Bench]:
    bench = Bench(roots, speed)
    plan = Plan(changes, (), 5, 2.0, limit_s)
    with HostValues(roots, tmp_path) as host:
        found = Verification(plan, {"a": "b"}, bench.turn, host, lambda _: None, bench.clock)
        found.run()
    return found, bench


def test_a_change_that_helps_stays_and_is_part_of_both_sides_of_the_next(
    tmp_path: Path, roots: Roots
) -> None:
    def speed(settings: Mapping[str, str], queue: str) -> tuple[float, float]:
        return 1000.0 if queue == "1024" else 800.0, 3.0 if "num.io.threads" in settings else 4.0

    found, bench = run(
        tmp_path, roots, speed, host_change(), broker_change(), broker_change("num.network.threads")
    )
    assert [each.decision.verdict for each in found.outcomes] == [
        Verdict.HELPED,
        Verdict.HELPED,
        Verdict.NO_CHANGE,
    ]
    assert value_of(roots) == "1024"
    assert {queue for _, queue in bench.seen[11:]} == {"1024"}
    assert all(settings["num.io.threads"] == "2" for settings, _ in bench.seen[21:])
    assert all(settings["a"] == "b" for settings, _ in bench.seen)


def test_turns_alternate_after_one_that_does_not_count(tmp_path: Path, roots: Roots) -> None:
    found, bench = run(tmp_path, roots, lambda *_: (1.0, 1.0), host_change())
    assert [queue == "1024" for _, queue in bench.seen] == [
        *(False,),
        *(False, True, True, False),
        *(False, True, True, False),
        *(False, True),
    ]
    assert len(found.outcomes[0].without) == len(found.outcomes[0].changed) == 5


@pytest.mark.parametrize("ack", [4.0, 9.0])
def test_a_change_that_does_not_help_or_harms_is_undone(tmp_path: Path, roots: Roots, ack: float) -> None:
    found, _ = run(
        tmp_path,
        roots,
        lambda _, queue: (800.0, ack if queue == "1024" else 4.0),
        host_change(),
        broker_change(),
    )
    assert found.outcomes[0].decision.verdict is (Verdict.HARMED if ack > 4 else Verdict.NO_CHANGE)
    assert value_of(roots) == "128"
    assert not any(each.kept for each in found.outcomes)


def test_a_broker_that_fails_with_the_change_takes_only_that_change_away(
    tmp_path: Path, roots: Roots
) -> None:
    def speed(settings: Mapping[str, str], queue: str) -> tuple[float, float]:
        if queue == "1024":
            raise TurnFailed("ended with code 2")
        return (900.0 if "num.io.threads" in settings else 800.0), 4.0

    found, _ = run(tmp_path, roots, speed, host_change(), broker_change())
    assert [each.decision.verdict for each in found.outcomes] == [Verdict.FAILED, Verdict.HELPED]
    assert found.outcomes[0].failure == "ended with code 2"
    assert value_of(roots) == "128"


def test_a_broker_that_fails_without_a_change_ends_the_run(tmp_path: Path, roots: Roots) -> None:
    calls = 0

    def speed(*_: object) -> tuple[float, float]:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise TurnFailed("no more")
        return 1.0, 1.0

    with pytest.raises(TurnFailed):
        run(tmp_path, roots, speed, host_change())
    assert value_of(roots) == "128"


def test_the_time_ends_a_run_and_what_it_left_out_is_named(tmp_path: Path, roots: Roots) -> None:
    found, bench = run(
        tmp_path, roots, lambda _, queue: (800.0 if queue == "128" else 900.0, 4.0), host_change(), broker_change(),
        limit_s=8.0,
    )  # fmt: skip
    assert bench.now == 8.0
    assert [each.decision.verdict for each in found.outcomes] == [Verdict.UNDECIDED]
    assert [left.what for left in found.late] == ["num.io.threads=2"]
    assert value_of(roots) == "128"


def test_slow_starts_make_the_load_shorter_not_the_run_longer(tmp_path: Path, roots: Roots) -> None:
    given: list[float] = []
    bench = Bench(roots, lambda *_: (1.0, 1.0), turn_s=12.0)

    def turn(settings: Mapping[str, str], seconds: float) -> Figures:
        given.append(seconds)
        return bench.turn(settings, seconds)

    plan = Plan((broker_change(),), (), 5, 9.0, 172.0)
    with HostValues(roots, tmp_path) as host:
        Verification(plan, {}, turn, host, lambda _: None, bench.clock).run()
    assert given == [
        2.0,
        *[pytest.approx(4.4)] * 10,
    ]  # 10 s beside the load: 0.9 x (172 - 12) = 10 x (10 + 4.4)
