"""Each alert fires on the trouble it is for, not before its time, and resolves when the trouble is
over: promtool evaluates the rules on made-up series (`TROUBLES`), a sample each 15 s as with the
scrape configuration."""

import json
import math
import re
from pathlib import Path

import pytest

from docs.generated import ROOT
from kbroker.http.time_to_full import TimeToFull
from tests.tuning.dashboards.made_series import JOB, TROUBLES, Trouble
from tests.tuning.dashboards.rule_tests import run
from tuning.dashboards.alerts import ALERTS, page

INTERVAL_S = 15
FINE_S, TROUBLE_S, AFTER_S = 1800, 3600, 3600
PAGE = ROOT / "docs" / "alerts.md"


def values(trouble: Trouble, numbers: tuple[float, float, float]) -> str:
    """The samples of a series."""
    at = 0.0
    written = []
    for number, seconds in zip(numbers, (FINE_S, TROUBLE_S, AFTER_S), strict=True):
        for _ in range(seconds // INTERVAL_S):
            at = at + number if trouble.grows else number
            written.append(f"{at:g}")
    return " ".join(written)


def firing(name: str, at_s: int, expected: bool) -> dict[str, object]:
    """What promtool looks at. A set of labels that it cannot know is the rule's own business."""
    return {"eval_time": f"{at_s}s", "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
            "exp_samples": [{"labels": "{}", "value": 1}] if expected else []}  # fmt: skip


def checks(name: str) -> dict[str, object]:
    """Quiet before the trouble and at its beginning, firing in time and to its end, then
    resolved."""
    trouble = TROUBLES[name]
    alert = next(alert for alert in ALERTS if alert.name == name)
    wait_s = int(alert.wait.removesuffix("m")) * 60
    end_s = FINE_S + TROUBLE_S
    moments = [
        firing(name, FINE_S - INTERVAL_S, False),
        firing(name, FINE_S + alert.fires_s, True),
        firing(name, end_s - INTERVAL_S, True),
        firing(name, end_s + trouble.resolves_s, False),
    ]
    early_s = max(wait_s - INTERVAL_S, alert.fires_s - 60)
    if early_s > 0:
        moments.insert(1, firing(name, FINE_S + early_s, False))
    series = [
        {"series": series, "values": values(trouble, (fine, bad, after))}
        for series, fine, bad, after in trouble.series
    ]
    return {"name": name, "interval": f"{INTERVAL_S}s", "input_series": series, "promql_expr_test": moments}


def test_every_alert_has_its_trouble_here() -> None:
    assert list(TROUBLES) == [alert.name for alert in ALERTS]


def test_the_page_has_each_alert_with_the_time_that_promtool_checks() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d.]+) (s|min) \| [^|]+\. \| [^|]+\. \|$", PAGE.read_text(), re.MULTILINE
    )
    found = {name: float(number) * (60 if unit == "min" else 1) for name, number, unit in rows}
    checked = {}
    for alert in ALERTS:
        moments = checks(alert.name)["promql_expr_test"]
        assert isinstance(moments, list)
        first = next(moment for moment in moments if moment["exp_samples"])
        checked[alert.name] = float(first["eval_time"].removesuffix("s")) - FINE_S
    assert found == checked


def test_the_rules_are_valid(promtool: str, tmp_path: Path) -> None:
    rules = tmp_path / "alerts.yml"
    rules.write_text(page())
    assert run(promtool, "check", "rules", str(rules)) == ""


@pytest.mark.slow
def test_each_alert_fires_on_its_trouble_in_time_and_resolves(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(page())
    tests = [checks(alert.name) for alert in ALERTS]
    whole = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{INTERVAL_S}s", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(whole))
    assert run(promtool, "test", "rules", str(tmp_path / "tests.yml")) == ""


def test_a_ramp_after_a_quiet_hour_pages_before_the_disk_is_full(promtool: str, tmp_path: Path) -> None:
    """The disk is full 15 minutes after the ramp begins, and was forecast by the broker's own
    code."""
    (tmp_path / "alerts.yml").write_text(page())
    forecast, forecasts = TimeToFull(), []
    for second in range(0, 3600 + 900, INTERVAL_S):
        forecast.add(second, 1e12 * min(1.0, 1 - (second - 3600) / 900))
        forecasts.append(forecast.seconds() or 0)
    written = " ".join("Inf" if left == math.inf else f"{left:g}" for left in forecasts)
    rows = [{"series": f'kbroker_log_dir_full_seconds{{{JOB},dir="/a"}}', "values": written}]
    moments = [firing("KbrokerDiskFillsFast", 3600, False), firing("KbrokerDiskFillsFast", 3600 + 240, True)]
    test = {"interval": f"{INTERVAL_S}s", "input_series": rows, "promql_expr_test": moments}
    whole = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{INTERVAL_S}s", "tests": [test]}
    (tmp_path / "tests.yml").write_text(json.dumps(whole))
    assert run(promtool, "test", "rules", str(tmp_path / "tests.yml")) == ""


def test_a_broker_that_no_job_scrapes_is_an_alert(promtool: str, tmp_path: Path) -> None:
    """A job of another name, or none: without series, up == 0 would never hold."""
    (tmp_path / "alerts.yml").write_text(page())
    other = [{"series": 'up{instance="a",job="node"}', "values": "1x20"}]
    moments = [firing("KbrokerDown", 30, False), firing("KbrokerDown", 90, True)]
    test = {"interval": f"{INTERVAL_S}s", "input_series": other, "promql_expr_test": moments}
    whole = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{INTERVAL_S}s", "tests": [test]}
    (tmp_path / "tests.yml").write_text(json.dumps(whole))
    assert run(promtool, "test", "rules", str(tmp_path / "tests.yml")) == ""


@pytest.mark.slow
def test_a_lagging_group_is_an_alert_only_while_it_is_used(promtool: str, tmp_path: Path) -> None:
    """Some consumers commit without being members. The last members of the group c left less than a
    day ago. The group d has no members, and its last commit was hours ago."""
    (tmp_path / "alerts.yml").write_text(page())
    tests = []
    for group, members, offset, expected in (
        ("a", "0x800", "5x800", False), ("b", "0x800", "5+1x800", True), ("c", "1 0x799", "5x800", True),
        ("d", "0x800", "5 6x799", True),
    ):  # fmt: skip
        labels = f'{JOB},group="{group}"'
        series = {
            f"kbroker_group_lag_sum{{{labels}}}": "0+1000x800",
            f"kbroker_group_cache_seconds{{{labels}}}": "600x800",
            f"kbroker_group_members{{{labels}}}": members,
            f'kbroker_group_offset{{{labels},topic="t",partition="0"}}': offset,
        }
        rows = [{"series": name, "values": samples} for name, samples in series.items()]
        names = ("KbrokerLagGrows", "KbrokerLeavesCache")
        moments = [firing(name, 9600, expected) for name in names]
        tests.append(
            {"name": group, "interval": f"{INTERVAL_S}s", "input_series": rows, "promql_expr_test": moments}
        )
    whole = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{INTERVAL_S}s", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(whole))
    assert run(promtool, "test", "rules", str(tmp_path / "tests.yml")) == ""
