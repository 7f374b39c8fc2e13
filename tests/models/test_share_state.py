"""Share groups: no failed write and no death of control makes a released record disappear, or an
accepted one come back; real shared partitions take only paths of the model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.share.partitions import SharePartitions
from kbroker.control.share.ranges import Range
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import ShareKey
from tests.models import real_share_state
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states
from tests.models.paths import Paths, check_runs
from tests.models.share_state import ShareModel, ShareState

RUNS, BUG_RUNS = range(500), range(300)
SILENT = {"record N: in the log", "record N: ShareStateShard.write, update from N"}
"""Kinds of steps that show nothing if control is killed next."""


def test_released_records_stay_and_accepted_ones_do_not_come_back() -> None:
    found = explore(ShareModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 2_000
    assert found.states == documented_states("share_state")


BUGS = [
    ("start_kept", "a released record is delivered again"),
    ("not_undone", "a member that was refused may try again"),
    ("answered_early", "an accepted record is not delivered again"),
]


@pytest.mark.parametrize(("bug", "promise"), BUGS)
def test_bug_that_is_put_back_is_found(bug: str, promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        explore(ShareModel(**{bug: True}))


def paths() -> Paths[ShareState]:
    return Paths(ShareModel(), real_share_state.shows)


def test_real_partitions_take_every_kind_of_step_and_only_paths_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_runs(paths(), real_share_state.runs(tmp_path, RUNS, monkeypatch), SILENT)


def _put_back(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "start_kept":

        def write(
            of: SharePartitions, key: ShareKey, _: object, start: int, changed: list[Range], now_ms: int
        ) -> Outcome:
            return of._shard.write(key, start, changed, now_ms)

        monkeypatch.setattr(SharePartitions, "_write", write)
    elif bug == "not_undone":
        monkeypatch.setattr(SharePartition, "roll_back", lambda *_: None)
    else:
        assert bug == "answered_early"
        store = SharePartitions.store

        async def begin(*arguments: Any) -> None:
            asyncio.get_running_loop().create_task(store(*arguments))

        monkeypatch.setattr(SharePartitions, "store", begin)


@pytest.mark.parametrize("bug", [bug for bug, _ in BUGS])
def test_trace_of_a_bug_in_the_code_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    _put_back(bug, monkeypatch)
    model = paths()
    traces = real_share_state.runs(tmp_path, BUG_RUNS, monkeypatch).values()
    assert any(model.refuses(trace) for trace in traces)
