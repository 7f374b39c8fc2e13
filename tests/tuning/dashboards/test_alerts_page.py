"""The page of the alerts."""

import pytest

from tuning.dashboards.alerts import ALERTS
from tuning.dashboards.alerts_page import page, shown


@pytest.mark.parametrize(("seconds", "text"), [(30, "30 s"), (90, "90 s"), (330, "5.5 min"), (720, "12 min")])
def test_times_are_short(seconds: int, text: str) -> None:
    assert shown(seconds) == text


def test_alerts_that_page_come_first() -> None:
    pages, tickets = page().split("## Tickets")
    for alert in ALERTS:
        assert f"| `{alert.name}` |" in (pages if alert.page else tickets)
