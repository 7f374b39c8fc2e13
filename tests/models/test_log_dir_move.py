"""The switch of a log to another log dir: no acknowledged record stays behind, and the partition
stays writable, whichever process dies; a real control and IO worker take only paths of the
model."""

from pathlib import Path

import pytest

from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.log_openings import PendingTopics
from kbroker.io.log_dirs.moves import Moves
from kbroker.io.partition.replica_role import ReplicaRole
from tests.models import real_log_dir_move
from tests.models.explorer import Violation, explore
from tests.models.log_dir_move import MoveModel, MoveState
from tests.models.page import documented_states
from tests.models.paths import NoPath, Paths, check_runs

RUNS, BUG_RUNS = range(80), range(95, 215)
SILENT = {
    "control is killed, stored: N",
    "FinishMove: to a worker that opens its logs",
    "greet: decided, OpenPartition in dir N",
    "OpenPartition: the log is open",
}
"""Kinds of steps that may change nothing which shows."""


def test_no_acknowledged_record_is_lost_if_any_process_dies() -> None:
    found = explore(MoveModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 400
    assert found.states == documented_states("log_dir_move")


BUGS = [
    ("not_greeted", "every acknowledged record"),
    ("not_decided", "every acknowledged record"),
    ("not_held_off", "every acknowledged record"),
    ("while_opened", "every acknowledged record"),
    ("not_reopened", "an end stays in reach"),
]


@pytest.mark.parametrize(("bug", "promise"), BUGS)
def test_bug_that_is_put_back_is_found(bug: str, promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        explore(MoveModel(**{bug: True}))


def paths() -> Paths[MoveState]:
    return Paths(MoveModel(), real_log_dir_move.shows)


def test_real_processes_take_every_kind_of_step_and_only_paths_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_runs(paths(), real_log_dir_move.runs(tmp_path, RUNS, monkeypatch), SILENT)


async def at_once(*_: object) -> None:
    """Wait for nothing."""


@pytest.mark.parametrize("bug", [bug for bug, _ in BUGS])
def test_trace_of_a_bug_in_the_code_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    kind, method, instead = {
        "not_greeted": (LogDirMoves, "worker_started", lambda *_: None),
        "not_decided": (LogDirMoves, "decided", at_once),
        "not_held_off": (ReplicaRole, "pause", lambda *_: None),
        "while_opened": (PendingTopics, "pending", lambda *_: False),
        "not_reopened": (Moves, "reopened", lambda *_: None),
    }[bug]
    monkeypatch.setattr(kind, method, instead)
    model = paths()
    with pytest.raises(NoPath):
        real_log_dir_move.runs(tmp_path, BUG_RUNS, monkeypatch, model.follow)
