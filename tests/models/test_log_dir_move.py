"""The switch of a log to another log dir: no acknowledged record stays behind, and the partition
stays writable, whichever process dies."""

import pytest

from tests.models.explorer import Violation, explore
from tests.models.log_dir_move import MoveModel
from tests.models.page import documented_states


def test_no_acknowledged_record_is_lost_if_any_process_dies() -> None:
    found = explore(MoveModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 400
    assert found.states == documented_states("log_dir_move")


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        ("not_greeted", "every acknowledged record"),
        ("not_decided", "every acknowledged record"),
        ("not_held_off", "every acknowledged record"),
        ("while_opened", "every acknowledged record"),
        ("not_reopened", "an end stays in reach"),
    ],
)
def test_bug_that_is_put_back_is_found(bug: str, promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        explore(MoveModel(**{bug: True}))
