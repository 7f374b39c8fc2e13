"""Names, types, defaults, checks, importance and change mode are Apache Kafka 4.3.1's.

kafka_settings.tsv holds the facts as the running classes of Kafka print them (ConfigDef and
dynamicConfigUpdateModes).
"""

import csv
from pathlib import Path

import pytest

from kbroker.config.broker import BROKER
from kbroker.config.client_metrics import CLIENT_METRICS
from kbroker.config.group import GROUP
from kbroker.config.setting import Setting, render
from kbroker.config.topic import TOPIC
from tests.config.differences import OTHER_CHECK, OTHER_DEFAULT, is_confluents, is_later

TABLES = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client-metrics": CLIENT_METRICS}
FACTS_FILE = Path(__file__).with_name("kafka_settings.tsv")
FACTS = list(csv.DictReader(FACTS_FILE.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE))

OWN = {"super.users", "allow.everyone.if.no.acl.found"}  # read by Kafka's authorizer, outside its table


def row_of(fact: dict[str, str]) -> Setting:
    return TABLES[fact["resource"]][fact["name"]]


def name_of(fact: dict[str, str]) -> str:
    return f"{fact['resource']}:{fact['name']}"


@pytest.mark.parametrize("fact", FACTS, ids=name_of)
def test_row_is_kafkas(fact: dict[str, str]) -> None:
    row = row_of(fact)
    assert row.type.name == fact["type"]
    assert row.importance.name == fact["importance"]
    assert row.internal == bool(fact["internal"])
    if fact["resource"] == "broker":
        assert row.dynamic.value == fact["change"]
    if fact["name"] not in OTHER_DEFAULT:
        default = render(row.default_value(), row.type)
        assert default == (None if fact["default"] in ("<null>", "<none>") else fact["default"])
    if fact["type"] != "CLASS" and fact["name"] not in OTHER_CHECK:
        allowed = "" if row.check is None else str(row.check)
        assert allowed.replace("any non-empty value", "") == fact["allowed"]


@pytest.mark.parametrize("resource", TABLES)
def test_no_name_is_missing_and_none_is_invented(resource: str) -> None:
    kafka = {fact["name"] for fact in FACTS if fact["resource"] == resource}
    names = {name for name in TABLES[resource] if not name.startswith("kbroker.") and not is_later(name)}
    ours = names - OWN - {"write.caching"} - {name for name in names if is_confluents(name)}
    assert ours == kafka


def test_every_row_has_a_text_of_its_own_or_a_reason_to_have_none() -> None:
    from kbroker.config.inert import INERT_REASON, INERT_TOPIC_REASON

    for table in TABLES.values():
        for name, row in table.items():
            assert row.doc or name in INERT_REASON or name in INERT_TOPIC_REASON


def test_every_default_passes_its_own_check() -> None:
    for table in TABLES.values():
        for row in table.values():
            text = render(row.default_value(), row.type)
            if text is not None:
                assert row.parse(text) == row.default_value()
