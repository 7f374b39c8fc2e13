"""The clean shutdown marker: a log dir is marked only when every log in it was checked and
closed."""

import pytest

from tests.models.explorer import Violation, explore
from tests.models.log_opening import OpeningModel
from tests.models.page import documented_states


def test_no_marked_dir_has_a_torn_log() -> None:
    found = explore(OpeningModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 400
    assert found.states == documented_states("log_opening")


@pytest.mark.parametrize("bug", ["no_logs_open", "unclosed_is_clean"])
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="a marked dir has no torn log") as broken:
        explore(OpeningModel(**{bug: True}))
    assert broken.value.steps[-1] == "the broker stops, marked"
