"""What one client writes, every other reads: all codecs, headers, nulls, empty and large records,
timestamps."""

from typing import Any

import pytest

from tests.compat.clients.conftest import Cluster, TopicFactory
from tests.compat.clients.line_clients import Console, Kcat
from tests.compat.clients.python_clients import AioKafka, Confluent, KafkaPython
from tests.compat.clients.record import RECORDS, Record, without_times

pytestmark = [pytest.mark.compat, pytest.mark.short]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = (
    Confluent,
    KafkaPython,
    AioKafka,
    Kcat,
    pytest.param(Console, marks=pytest.mark.kafka),
)
WRITTEN: dict[tuple[str, type], tuple[str, list[Record]]] = {}
"""Each writer's topic and records, by cluster and writer: written once, read by all."""


@pytest.fixture
def written(cluster: Cluster, writer: Any, topic: TopicFactory) -> tuple[str, list[Record]]:
    if (cluster.bootstrap, writer) not in WRITTEN:
        name = topic()
        records = [one for codec in CODECS for one in writer.write(cluster.bootstrap, name, codec, RECORDS)]
        WRITTEN[cluster.bootstrap, writer] = name, records
    return WRITTEN[cluster.bootstrap, writer]


@pytest.mark.parametrize("writer", CLIENTS)
@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_reads_the_records_of_every_other(
    cluster: Cluster, written: tuple[str, list[Record]], reader: Any
) -> None:
    name, records = written
    assert len(records) >= 5 * len(CODECS)
    found = reader.read(cluster.bootstrap, name, len(records))
    assert without_times(found, records) == records
