"""Replicas: what acks=all has answered is in every log that may be elected, whichever process
dies."""

import pytest

from tests.models.explorer import Violation, explore
from tests.models.high_watermark import MarkModel
from tests.models.page import documented_states


def test_acknowledged_records_survive_leaders_that_die() -> None:
    found = explore(MarkModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 20_000
    assert found.states == documented_states("high_watermark")


@pytest.mark.parametrize(
    "bug", ["largest", "any_epoch", "not_cut", "stored_first", "sent_first", "mark_alone"]
)
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="in every log that may be elected") as broken:
        explore(MarkModel(**{bug: True}))
    elections = sum("elect" in step for step in broken.value.steps)
    assert elections == (bug in ("any_epoch", "not_cut", "mark_alone"))
