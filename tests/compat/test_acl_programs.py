"""The same course of ACLs with unmodified clients, here and on Apache Kafka."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.compat.acl_matrix import kafka_settings, settings
from tests.compat.acl_programs import (
    ALL_TOPICS,
    CLIENTS,
    ORDERS,
    PAYMENTS,
    ROWS,
    SHOPS,
    KafkaAcls,
    Program,
    check,
)
from tests.compat.neighbours.building import CACHE, HERE, built, node_with
from tests.compat.neighbours.npm_versions import KAFKAJS
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port


class Cluster(NamedTuple):
    """A broker with an authorizer. patience_s: how long a change may take to be seen."""

    bootstrap: str
    patience_s: float


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kbroker", marks=pytest.mark.compat),
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.slow]),
    ],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, ports = tmp_path_factory.mktemp("acls"), (free_port(), free_port())
    bootstrap = f"127.0.0.1:{ports[0]}"
    if request.param == "kbroker":
        broker = KBroker(folder, dict(settings(*ports)))
        broker.start()
        yield Cluster(bootstrap, 0)
        broker.stop()
        assert "Traceback" not in broker.logs(1 << 20)
        return
    request.getfixturevalue("kafka_jars")
    kafka = ApacheKafka(folder, jvm=QUICK_START)
    kafka.port = ports[0]
    kafka.start(dict(kafka_settings(*ports, free_port())))
    yield Cluster(bootstrap, 120)
    kafka.stop()


@pytest.mark.parametrize("name", CLIENTS)
def test_acls_are_made_listed_and_deleted(cluster: Cluster, name: str) -> None:
    check(CLIENTS[name](cluster.bootstrap), cluster.patience_s)


@pytest.mark.slow
def test_kafkajs_makes_lists_and_deletes_acls(cluster: Cluster) -> None:
    node, modules = node_with(KAFKAJS)
    command = [node, str(HERE / "kafkajs_acls.js")]
    check(Program(command, cluster.bootstrap, NODE_PATH=modules), cluster.patience_s)


@pytest.mark.slow
def test_kafka_go_makes_lists_and_deletes_acls(cluster: Cluster) -> None:
    program = CACHE / "kafka_go_acls"
    built(["go", "build", "-o", str(program), "."], HERE / "kafka_go_acls")
    check(Program([str(program)], cluster.bootstrap), cluster.patience_s)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("kafka_jars")
def test_kafka_acls_makes_lists_and_removes_acls(cluster: Cluster) -> None:
    tool = KafkaAcls(cluster.bootstrap)
    tool.create(ROWS)
    assert sorted(tool.listed()) == sorted(ROWS)
    of_shop_1 = ("--topic", "shop-1", "--resource-pattern-type", "match")
    assert sorted(tool.listed(*of_shop_1)) == sorted([SHOPS, ALL_TOPICS])
    assert tool.listed("--topic", "shop-1") == []
    own = tool.listed("--principal", "User:ann")
    assert sorted(own) == sorted(row for row in ROWS if row[3] == "User:ann")
    tool.removed("--topic", "shop-", "--resource-pattern-type", "prefixed")
    tool.removed("--topic", "orders", "--allow-principal", "User:ann", "--operation", "Write")
    assert sorted(tool.listed()) == sorted(row for row in ROWS if row not in (SHOPS, ORDERS))
    tool.removed("--topic", "*")
    tool.removed("--group", "billing")
    tool.removed("--cluster")
    assert tool.listed() == [PAYMENTS]
    tool.removed("--transactional-id", "tx-1", "--resource-pattern-type", "match")
    assert tool.listed() == []
