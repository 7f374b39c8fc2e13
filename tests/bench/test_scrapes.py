"""The measurement of scrapes sees what it measures."""

from pathlib import Path

import pytest

from bench.scrapes import NAMES, ROLES, TOPIC, fetch, fill, measure, row
from tests.callbacks import slowness
from tests.conftest import BrokerFactory
from tests.peer.scrape import base, scrape

pytestmark = pytest.mark.slow

PARTITIONS = 30
MANY, MOST_BYTES, MOST_CPU_S = 1_000, 1_000_000, 0.2


def test_each_partition_has_a_group_with_lag_and_both_scrapes_are_measured(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    node = broker_factory()
    fill(node, PARTITIONS)
    found = scrape(node)
    lags = {labels["group"] for labels in found.labels("kbroker_group_lag_sum")}
    assert len(lags) == PARTITIONS + 1  # and the first one, which waited for the coordinator
    assert len([1 for labels in found.labels("kbroker_log_bytes") if labels["topic"] == TOPIC]) == PARTITIONS
    whole, own = (measure(node, 3, query) for query in NAMES.values())
    assert set(whole.cpu_s) == set(own.cpu_s) == set(ROLES)
    assert whole.packed < whole.size
    assert own.size < whole.size
    assert row(PARTITIONS, "both", whole).startswith("| 30 | both | ")
    assert fetch(f"{base(node)}/metrics").startswith(b"\x1f\x8b")


def test_a_scrape_of_kbrokers_names_is_small_at_a_thousand_partitions_with_a_group_on_each(
    broker_factory: BrokerFactory,
) -> None:
    node = broker_factory()
    fill(node, MANY)
    cost = measure(node, 5, NAMES["kbroker's"])
    print(row(MANY, "kbroker's", cost))
    found = scrape(node)
    assert len({labels["group"] for labels in found.labels("kbroker_group_lag_sum")}) == MANY + 1
    assert cost.size < MOST_BYTES
    assert sum(cost.cpu_s.values()) < MOST_CPU_S * slowness()
