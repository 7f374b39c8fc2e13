"""A part of the upkeep that fails each second does not fill the log."""

import pytest

from kbroker.net.upkeep_failures import UpkeepFailures


class Second:
    """The clock, and a part of the upkeep."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.fails = True

    def step(self) -> str:
        if self.fails:
            raise ValueError("broken")
        return "done"


def test_failures_are_logged_once_a_minute_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    second = Second()
    failures = UpkeepFailures(lambda: second.now_s)
    found = []
    for _ in range(200):
        second.fails = second.now_s < 1065 and second.now_s != 1030
        found.append(failures.run(3, second.step))
        second.now_s += 1
    assert [found[n] for n in (0, 30, 64, 65, 199)] == [None, "done", None, "done", "done"]
    assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("part 3 of the upkeep failed", True),
        ("part 3 of the upkeep failed 59 more times", True),
        ("part 3 of the upkeep works again, after 4 more failures", False),
    ]
    second.fails = True
    failures.run(3, second.step)
    assert caplog.records[-1].getMessage() == "part 3 of the upkeep failed"


def test_each_part_has_its_own_reports(caplog: pytest.LogCaptureFixture) -> None:
    second = Second()
    failures = UpkeepFailures(lambda: second.now_s)
    for part in (0, 1, 0, 1):
        failures.run(part, second.step)
    assert [record.getMessage() for record in caplog.records] == [
        "part 0 of the upkeep failed",
        "part 1 of the upkeep failed",
    ]
