"""The sequence counter of a slot: readers see whole groups only, also while writers die; the real
functions agree."""

import numpy as np
import pytest

from kbroker.ipc.layout import Slot
from kbroker.kernels.sequence import write_group
from kbroker.net.rows.topic_kernel import read_slot
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states
from tests.models.slot_group import LOG_END, POSITION, SEQUENCE, SlotGroupModel

PLACES = {SEQUENCE: Slot.SEQUENCE, LOG_END: Slot.LOG_END, POSITION: Slot.ACTIVE_END}


def test_consistent_groups_are_read_in_any_interleaving() -> None:
    found = explore(SlotGroupModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 1_500
    assert found.states == documented_states("slot_group")


@pytest.mark.parametrize(
    "bug",
    ["writer_has_no_fence", "odd_is_read", "reader_has_no_fence", "one_look", "successor_adds_one"],
)
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="what is read is one group") as broken:
        explore(SlotGroupModel(**{bug: True}))
    died = any("killed" in step for step in broken.value.steps)
    assert died == (bug == "successor_adds_one")


def test_real_functions_continue_from_every_state_of_the_model() -> None:
    """Memory as it may be found at any moment: `read_slot` takes what has an even counter, and
    after `write_group`, as by a successor, every reader has the new group."""
    memories = {state.words for state in explore(SlotGroupModel()).parents}
    odd = [words for words in memories if words[SEQUENCE] % 2]
    assert len(odd) > 10
    for words in memories:
        slot, out = Slot.table(1)[0], np.zeros(Slot.WORDS, np.int64)
        for number, place in PLACES.items():
            slot[place] = words[number]
        assert read_slot(slot.ctypes.data, out) == (words not in odd)
        write_group(slot, np.array([Slot.LOG_END, Slot.ACTIVE_END]), np.array([9, 9]))
        assert read_slot(slot.ctypes.data, out) == 1
        assert (out[Slot.LOG_END], out[Slot.ACTIVE_END]) == (9, 9)
        assert out[Slot.SEQUENCE] == words[SEQUENCE] // 2 * 2 + 2
