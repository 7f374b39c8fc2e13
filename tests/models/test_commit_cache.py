"""The commit cache and the group machine are one history: what the log says is what both have
answered; the real coordinator takes only paths of the model."""

from pathlib import Path

import pytest

from kbroker.api import offset_commit
from kbroker.control.coordinator.running import Running
from kbroker.control.groups.commit_cache.cache import CommitCache
from kbroker.control.groups.commit_cache.layout import CommitBatch
from kbroker.ipc.link import AsyncLink
from tests.models import real_commit_cache
from tests.models.commit_cache import TURN_ENDS, CacheState, CommitCacheModel
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states
from tests.models.paths import Paths, check_runs

RUNS, BUG_RUNS = range(1000), range(200)


def test_cache_and_machine_are_one_history() -> None:
    found = explore(CommitCacheModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 2_000
    assert found.states == documented_states("commit_cache")


BUGS = [
    ("pass_stays", "no commit of an ended generation"),
    ("no_wait", "has seen all commits before it"),
    ("learns_early", "no commit of an ended generation"),
    ("answered_early", "an acknowledged commit is in the log"),
]


@pytest.mark.parametrize(("bug", "promise"), BUGS)
def test_bug_that_is_put_back_is_found(bug: str, promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        explore(CommitCacheModel(**{bug: True}))


def paths() -> Paths[CacheState]:
    return Paths(CommitCacheModel(), real_commit_cache.shows, {TURN_ENDS})


def test_real_coordinator_takes_every_kind_of_step_and_only_paths_of_the_model(tmp_path: Path) -> None:
    check_runs(paths(), real_commit_cache.runs(tmp_path, RUNS))


def _put_back(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "pass_stays":
        monkeypatch.setattr(CommitCache, "forget", lambda cache, key: None)
    elif bug == "no_wait":
        monkeypatch.setattr(CommitCache, "in_flight", lambda cache, key: False)
    elif bug == "learns_early":
        monkeypatch.setattr(offset_commit, "Deferred", Running)
    else:
        assert bug == "answered_early"
        write = CommitCache._write

        def answer_and_write(
            cache: CommitCache, link: AsyncLink, block: bytearray, number: int, row: list[int]
        ) -> None:
            start = row[CommitBatch.ANSWERS_AT]
            link.answer(cache._ready[start : start + row[CommitBatch.ANSWERS_BYTES]].tobytes())
            write(cache, link, block, number, row)

        monkeypatch.setattr(CommitCache, "_write", answer_and_write)


@pytest.mark.parametrize("bug", [bug for bug, _ in BUGS])
def test_trace_of_a_bug_in_the_code_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    _put_back(bug, monkeypatch)
    model = paths()
    assert any(model.refuses(trace) for trace in real_commit_cache.runs(tmp_path, BUG_RUNS).values())
