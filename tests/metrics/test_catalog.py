"""The catalogue has no metric that is not counted."""

import re
from pathlib import Path

from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from kbroker.metrics.labels import VALUES
from kbroker.metrics.metric import Kind, Source
from kbroker.metrics.slots import METRIC_WORDS

PACKAGE = Path(__file__).parents[2] / "kbroker"
FRONT = re.compile(r"\n([A-Z_]+) = [^\n]*")


def sources() -> str:
    """Everything outside the room of metrics."""
    files = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "metrics"]
    return "\n".join(path.read_text() for path in files)


def test_every_row_has_an_owner_that_writes_or_adds_it() -> None:
    text = sources()
    front = (PACKAGE / "metrics" / "layout.py").read_text()
    layout = {match.group(1) for match in FRONT.finditer(front)}
    from kbroker.metrics import layout as numbers

    used = {getattr(numbers, name) for name in layout if re.search(rf"\b{name}\b", text)}
    silent = [
        row.name
        for row in (*CATALOG, *KAFKA)
        if f'"{row.name}"' not in text
        and not (row.name in METRIC_WORDS and METRIC_WORDS[row.name].start in used)
        and row.name not in dynamic()
    ]
    assert not silent


def dynamic() -> set[str]:
    """Names that are put together from a prefix and a table of the room itself."""
    prefixes = (
        "kafka_network_requestmetrics_",
        "kafka_server_brokertopicmetrics_",
        "kafka_coordinator_group_groupmetadatamanager_",
        "kafka_topic_partition_",
        "kafka_consumergroup_",
    )
    return {row.name for row in KAFKA if row.name.startswith(prefixes)}


def test_names_keep_to_the_rules_of_prometheus() -> None:
    names = [row.name for row in CATALOG]
    assert len(set(names)) == len(names)
    for row in CATALOG:
        assert re.fullmatch(r"(kbroker|process)_[a-z0-9_]+", row.name)
        assert (row.kind is Kind.COUNTER) == row.name.endswith("_total"), row.name
        assert row.kind is not Kind.HISTOGRAM or row.name.endswith("_seconds"), row.name
        assert row.help.endswith("."), row.name


def test_labels_of_counted_rows_have_value_sets() -> None:
    for row in CATALOG:
        if row.source is Source.ROW:
            assert set(row.labels) <= set(VALUES), row.name
