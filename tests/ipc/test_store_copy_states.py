"""What control says of the copies of the store is what http shows."""

from kbroker.ipc.shared import Shared, Sizes
from kbroker.ipc.store_copy_states import CURRENT, NONE, STALE, StoreCopyStates


def test_copies_that_count_are_current_and_the_others_that_should_are_stale() -> None:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=3))
    control, http = (StoreCopyStates(["/a", "/b/../b", "/c"], shared) for _ in range(2))
    assert [http.of(path) for path in http.paths] == [NONE] * 3
    control.put(["/a"], ["/a", "/b", "/elsewhere"])
    assert [http.of(path) for path in http.paths] == [CURRENT, STALE, NONE]
    control.put(["/a", "/b"], ["/a", "/b"])
    assert http.of("/b") == CURRENT
