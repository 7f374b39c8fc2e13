"""No dead panel: whatever an expression names is exported, with the labels it asks for."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from docs.generated import ROOT
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from kbroker.metrics.metric import Kind, Metric
from tuning.dashboards import alerts, dashboard
from tuning.dashboards.panel import whole
from tuning.dashboards.tables import ROOMS

FOLDER = Path(dashboard.__file__).parent
METRIC = re.compile(r"\b((?:kbroker|kafka)_[a-z0-9_]+)(\{[^}]*\})?")
LABEL = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
ADDED = {"instance", "job", "le"}  # by Prometheus, and by histograms

PANELS = [(room, panel) for room, panels in ROOMS.items() for panel in panels]
EXPRESSIONS = [(panel.title, whole(line[0])) for _, panel in PANELS for line in panel.lines]
EXPRESSIONS += [(alert.name, alert.expression) for alert in alerts.ALERTS]


def exported(metrics: Iterable[Metric] = (*CATALOG, *KAFKA)) -> dict[str, set[str]]:
    """Labels by the name of a series."""
    found: dict[str, set[str]] = {}
    for metric in metrics:
        endings = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        for ending in endings:
            found[metric.name + ending] = set(metric.shown_labels)
    return found


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_every_metric_and_label_of_an_expression_is_exported(title: str, expression: str) -> None:
    series = exported()
    named = METRIC.findall(expression)
    if title != "KbrokerDown":
        assert named
    labels = set(ADDED)
    for name, selector in named:
        assert name in series
        labels |= series[name]
        assert set(LABEL.findall(selector)) <= series[name] | ADDED
    for group in GROUPING.findall(expression):
        assert {each.strip() for each in group.split(",")} <= labels


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_the_shipped_scrape_job_requests_every_metric_of_an_expression(title: str, expression: str) -> None:
    config = msgspec.yaml.decode((FOLDER / "prometheus.yml").read_bytes())
    (job,) = config["scrape_configs"]
    assert job["params"] == {"names": ["kbroker"]}
    assert {name for name, _ in METRIC.findall(expression)} <= set(exported(CATALOG))
    assert "recording.yml" not in config["rule_files"]  # it needs Kafka's names


def test_the_scrape_job_of_the_page_is_the_shipped_one() -> None:
    """Its interval, too: the times of docs/alerts.md are those of a scrape each 15 s."""
    text = (ROOT / "docs" / "observe.md").read_text()
    block = text.split("```yaml\n")[1].split("```")[0]
    assert msgspec.yaml.decode(block) == msgspec.yaml.decode((FOLDER / "prometheus.yml").read_bytes())


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_brackets_are_balanced_and_nothing_is_left_to_fill_in(title: str, expression: str) -> None:
    assert all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}"))
    assert not re.search(r"[@#]", expression)


def test_counters_are_only_used_as_rates() -> None:
    counters = {metric.name for metric in CATALOG if metric.kind is Kind.COUNTER}
    for _, expression in EXPRESSIONS:
        for name, _ in METRIC.findall(expression):
            if name in counters:
                assert re.search(rf"(rate|increase)\({name}\b", expression)


def test_panels_have_a_number_a_unit_and_a_text_and_do_not_overlap() -> None:
    panels = json.loads(dashboard.page())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 35
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert [target["refId"] for target in panel["targets"]] == ["A", "B", "C"][
                : len(panel["targets"])
            ]


def test_heat_maps_have_the_buckets_of_one_histogram() -> None:
    panels = [panel for panel in json.loads(dashboard.page())["panels"] if panel["type"] == "heatmap"]
    assert {panel["title"] for panel in panels} == {"Produce times", "Fetch times", "Sync times"}
    for panel in panels:
        (target,) = panel["targets"]
        assert (target["format"], target["legendFormat"]) == ("heatmap", "{{le}}")
        assert re.fullmatch(
            r"sum by \(le\) \(increase\(\w+_bucket\{[^}]*\}\[\$__rate_interval\]\)\)", target["expr"]
        )
        assert panel["options"]["yAxis"] == {"unit": "s"}
        assert not panel["options"]["calculate"]  # Prometheus has counted the buckets


def test_each_subject_has_a_dashboard_with_the_variables_that_it_asks_for() -> None:
    for subject in ROOMS:
        text = dashboard.subject_page(subject)
        name = dashboard.file_name(f"kbroker: {subject}")
        assert (FOLDER / f"{name}.json").read_text() == text
        made = json.loads(text)
        variables = {variable["name"] for variable in made["templating"]["list"]}
        expressions = [t["expr"] for panel in made["panels"] for t in panel.get("targets", ())]
        assert set(re.findall(r"\$(\w+)", " ".join(expressions))) - {"__rate_interval"} <= variables
        assert not re.search(r"[@#%~](?!\")", re.sub(r'=~"', '="', " ".join(expressions)))
    assert "group" in json.dumps(json.loads(dashboard.subject_page("Groups"))["templating"])


def test_alerts_have_names_of_their_own_and_a_time() -> None:
    names = [alert.name for alert in alerts.ALERTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"\d+[mh]", alert.wait) for alert in alerts.ALERTS)
    assert alerts.page().count("- alert: ") == len(names)


def test_the_files_are_those_of_the_tables() -> None:
    assert (FOLDER / "kbroker.json").read_text() == dashboard.page()
    assert (FOLDER / "alerts.yml").read_text() == alerts.page()
