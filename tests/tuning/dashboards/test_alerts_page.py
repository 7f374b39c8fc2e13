"""The page of the alerts."""

import re
from pathlib import Path

import pytest

from tuning.dashboards.alerts import ALERTS
from tuning.dashboards.alerts_page import page, shown

TUNING = Path(__file__).parents[3] / "docs" / "tuning.md"


@pytest.mark.parametrize(("seconds", "text"), [(30, "30 s"), (90, "90 s"), (330, "5.5 min"), (720, "12 min")])
def test_times_are_short(seconds: int, text: str) -> None:
    assert shown(seconds) == text


def test_alerts_that_page_come_first() -> None:
    pages, tickets = page().split("## Tickets")
    for alert in ALERTS:
        assert f"| `{alert.name}` |" in (pages if alert.page else tickets)


def test_each_alert_has_a_broker_in_its_trouble() -> None:
    """docs/tuning.md says so, and names those of which only the expression is checked."""
    here = Path(__file__).parent
    files = [*here.glob("test_alerts_of_*.py"), here / "test_with_prometheus.py"]
    text = "".join(file.read_text() for file in files)
    fire = set(re.findall(r'"(Kbroker\w+)"', re.sub(r"expression_of\(.*", "", text)))
    expressions = set(re.findall(r'expression_of\(\s*"(Kbroker\w+)"', text))
    assert {alert.name for alert in ALERTS} == fire | expressions
    (sentence,) = re.findall(r"(of `KbrokerDown`.*?) only\s+the\s+expression", TUNING.read_text(), re.DOTALL)
    assert set(re.findall(r"`(Kbroker\w+)`", sentence)) == expressions - fire
