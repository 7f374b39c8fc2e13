"""The difference of two processes is that of neighbouring slices, whatever drifts."""

import pytest

from bench.kernel_slices import Slices, difference, slices_of


class Drifting(Slices):
    """Slices that all take longer than those before."""

    def __init__(self, log: list[str], name: str, more: float) -> None:
        self.log, self.name, self.more = log, name, more

    def take(self, work: str) -> float:
        self.log.append(self.name)
        return self.more + 10 * len(self.log)


def test_a_drift_is_in_no_difference_as_the_order_alternates() -> None:
    log: list[str] = []
    assert difference(Drifting(log, "with", 7), Drifting(log, "without", 0), "raw_50x1", 4) == 7
    assert log == ["without", "with", "with", "without"] * 2


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_take_slices_of_each_scenario() -> None:
    with slices_of({}, acls=True) as with_, slices_of({}, acls=False) as without:
        for work in ("raw_50x1", "raw_50x5", "fetch_4k"):
            assert with_.take(work) > 0
            assert without.take(work) > 0
            assert abs(difference(with_, without, work, 20)) < 10_000


def test_a_process_that_ends_is_an_error() -> None:
    with slices_of({}, acls=False) as one:
        one.process.kill()
        one.process.wait()
        with pytest.raises(RuntimeError, match="has ended"):
            one.take("raw_50x1")
