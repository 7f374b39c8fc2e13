"""Recording rules give the broker's series the names of other exporters, with the same samples."""

import json
import re
from pathlib import Path

import pytest

from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from tests.tuning.dashboards.rule_tests import run
from tuning.dashboards.recording import GROUPS, Rule, page

RULES = [rule for rules in GROUPS.values() for rule in rules]
METRIC = re.compile(r"\bkafka_[a-z0-9_]+")
SCRAPED = 'instance="a",job="kbroker"'
OLD_LABELS = 'clientSoftwareName="librdkafka",clientSoftwareVersion="2.4.0",listener="SSL"'
CASES = {
    "kafka_server_brokertopicmetrics_bytesinpersec": (
        f'kafka_server_brokertopicmetrics_bytesin_total{{{SCRAPED},topic="t"}}',
        f'{{{SCRAPED},topic="t"}}',
        240.0,
    ),
    "kafka_server_brokertopicmetrics_bytesinpersec_count": (
        f'kafka_server_brokertopicmetrics_bytesin_total{{{SCRAPED},topic="t"}}',
        f'{{{SCRAPED},topic="t"}}',
        240.0,
    ),
    "kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate": (
        f'kafka_server_brokertopicmetrics_bytesin_total{{{SCRAPED},topic="t"}}',
        f'{{{SCRAPED},topic="t"}}',
        1.0,
    ),
    "kafka_network_requestmetrics_totaltimems_99thpercentile": (
        f'kafka_network_requestmetrics_totaltimems{{{SCRAPED},request="Produce",quantile="0.99"}}',
        f'{{{SCRAPED},request="Produce"}}',
        240.0,
    ),
    "kafka_server_socketservermetrics_connections": (
        f"kafka_server_socket_server_metrics_connections_software{{{SCRAPED},{OLD_LABELS}}}",
        f'{{{SCRAPED},client_software_name="librdkafka",client_software_version="2.4.0",listener="SSL"}}',
        240.0,
    ),
    "kafka_server_produce_byte_rate": (
        f'kafka_server_quota_byte_rate{{{SCRAPED},resource="Produce",user="u",clientId="c"}}',
        f'{{{SCRAPED},user="u",client_id="c"}}',
        240.0,
    ),
}
"""By the recorded name: a series that grows by 15 each 15 s, and what is recorded after four
minutes."""


def exported() -> set[str]:
    return {row.name for row in (*CATALOG, *KAFKA)} | {row.kafka for row in CATALOG}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.record)
def test_a_rule_has_a_new_name_for_what_is_exported(rule: Rule) -> None:
    assert METRIC.findall(rule.expression)
    assert set(METRIC.findall(rule.expression)) <= exported()
    assert rule.record not in exported()


def test_no_name_is_recorded_twice() -> None:
    assert len({rule.record for rule in RULES}) == len(RULES)


def test_the_rules_are_valid(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "recording.yml").write_text(page())
    assert run(promtool, "check", "rules", str(tmp_path / "recording.yml")) == ""


def test_recorded_values_are_those_that_were_scraped(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "recording.yml").write_text(page())
    tests = [
        {
            "name": record,
            "interval": "15s",
            "input_series": [{"series": series, "values": "0+15x40"}],
            "promql_expr_test": [
                {
                    "eval_time": "4m",
                    "expr": record,
                    "exp_samples": [{"labels": record + labels, "value": value}],
                }
            ],
        }
        for record, (series, labels, value) in CASES.items()
    ]
    whole = {"rule_files": ["recording.yml"], "evaluation_interval": "15s", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(whole))
    assert run(promtool, "test", "rules", str(tmp_path / "tests.yml")) == ""
