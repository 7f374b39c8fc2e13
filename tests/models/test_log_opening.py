"""The clean shutdown marker: a log dir is marked only when every log in it was checked and closed;
real workers, control and supervisor take only paths of the model."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from kbroker.io.openings import Openings
from kbroker.ipc.layout import Slot, SlotState
from kbroker.supervisor.supervisor import Supervisor
from tests.models import real_log_opening
from tests.models.explorer import Violation, explore
from tests.models.log_opening import OpeningModel, OpeningState
from tests.models.page import documented_states
from tests.models.paths import NoPath, Paths, check_runs

RUNS, BUG_RUNS = range(100), range(120, 400)
SILENT = {"control: LOGS_OPEN"}
"""Kinds of steps that may change nothing which shows."""
BUGS = ["no_logs_open", "unclosed_is_clean", "offline_is_closed"]


def test_no_marked_dir_has_a_torn_log() -> None:
    found = explore(OpeningModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 400
    assert found.states == documented_states("log_opening")


@pytest.mark.parametrize("bug", BUGS)
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="a marked dir has no torn log") as broken:
        explore(OpeningModel(**{bug: True}))
    assert broken.value.steps[-1] == "the broker stops, marked"


def paths() -> Paths[OpeningState]:
    return Paths(OpeningModel(), real_log_opening.shows)


def test_real_processes_take_every_kind_of_step_and_only_paths_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_runs(paths(), real_log_opening.runs(tmp_path, RUNS, monkeypatch), SILENT)


def not_closed_before(openings: Openings, worker: int, open_slots: Collection[int]) -> int:
    """As it was: a log that only the predecessor had tried to open did not count."""
    words = openings._slots
    served = np.isin(words[:, Slot.STATE], (SlotState.ONLINE, SlotState.RECOVERING))
    left = set() if openings._first_start else set(np.flatnonzero(served).tolist())
    return len((left | openings._unread).difference(open_slots))


@pytest.mark.parametrize("bug", BUGS)
def test_trace_of_a_bug_in_the_code_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    if bug == "no_logs_open":
        monkeypatch.setattr(Supervisor, "_logs_checked", lambda supervisor: True)
    elif bug == "unclosed_is_clean":
        monkeypatch.setattr(Openings, "not_closed", lambda *_: 0)
    else:
        monkeypatch.setattr(Openings, "not_closed", not_closed_before)
    model = paths()
    with pytest.raises(NoPath):
        real_log_opening.runs(tmp_path, BUG_RUNS, monkeypatch, model.follow)
