"""The commit cache and the group machine are one history: what the log says is what both have
answered."""

import pytest

from tests.models.commit_cache import CommitCacheModel
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states


def test_cache_and_machine_are_one_history() -> None:
    found = explore(CommitCacheModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 2_000
    assert found.states == documented_states("commit_cache")


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        ("pass_stays", "no commit of an ended generation"),
        ("no_wait", "no commit of an ended generation"),
        ("learns_early", "no commit of an ended generation"),
        ("answered_early", "an acknowledged commit is in the log"),
    ],
)
def test_bug_that_is_put_back_is_found(bug: str, promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        explore(CommitCacheModel(**{bug: True}))
