"""`kbroker move` and `kbroker import` between kbroker and three Apache Kafka nodes, while producers
work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.cli.acl_requests import all_acls, create_acls
from kbroker.cli.config_changes import read_configs
from kbroker.cli.connection import Connection
from kbroker.cli.group_description import read_group
from kbroker.config import acls
from kbroker.config.acls import Acl
from loadtest.history import SendStatus
from loadtest.run import load_consumers, load_producers
from loadtest.settings import Settings
from tests.compat.moving import KAFKAS_AUTHORIZER, Mover, Trickle, running_cluster
from tests.conftest import BrokerFactory
from tests.crash.load import read_all
from tests.loadtest.plain_judge import judge, rows
from tests.loadtest.played_load import CATCH_UP, PlayedLoad
from tests.loadtest.spark_verdict import clean_verdict
from tests.peer.eventually import eventually
from tests.peer.kafka_cluster import KafkaCluster
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(500)]

ACLS = (
    Acl(acls.TOPIC, "orders", acls.PREFIXED, "User:alice", "*", acls.WRITE, acls.ALLOW),
    Acl(acls.USER, "User:etl", acls.LITERAL, "User:ops", "*", acls.CREATE_TOKENS, acls.ALLOW),
)
LARGE = 3 << 20
OTHER_SIDE = {"move": "--to", "import": "--from"}
SWITCHED = 500
"""Records of each producer, and for each consumer, on either side of a switch."""
LOAD = Settings(
    seconds=600,
    rate=300,
    partitions=3,
    plain=0,
    idempotent=1,
    transactional=0,  # markers of transactions have offsets, which a copy of the records does not keep
    copiers=0,
    churn_seconds=0,
)


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as three:
        yield three


def write_all_kinds(bootstrap: str) -> None:
    """Records that a naive copy would change: aborted ones, tombstones, nulls, headers, a large
    one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("orders", 2, 1, config={"retention.ms": "-1", "max.message.bytes": str(2 * LARGE)}),
        NewTopic(
            "orders.by-key", 1, 1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"}
        ),
        NewTopic("empty", 4, 1, config={"message.timestamp.type": "LogAppendTime"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(120)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2 * LARGE})
    for number in range(500):
        producer.produce("orders", f"{number}", key=str(number % 7), partition=0, headers={"n": str(number)})
        producer.produce("orders.by-key", f"{number}", key=str(number % 7))
    producer.produce("orders", None, key=None, partition=1, timestamp=1_600_000_000_000)
    producer.produce("orders", b"\0" * LARGE, partition=1)
    producer.produce("orders.by-key", None, key="3")
    assert producer.flush(120) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    transactional.init_transactions(120)
    for commits in (False, True, True):
        transactional.begin_transaction()
        for number in range(50):
            transactional.produce("orders", f"{commits}-{number}", partition=0)
        assert transactional.flush(120) == 0
        transactional.commit_transaction(60) if commits else transactional.abort_transaction(60)


def commit(bootstrap: str, group: str, *places: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(places), asynchronous=False)
    consumer.close()


def next_value(bootstrap: str, group: str, topic: str, partition: int) -> bytes | None:
    """The first record that a member of the group is given."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    offset = consumer.committed([TopicPartition(topic, partition)], 30)[0].offset
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    return message.value()


def check_arrival(source: str, target: str, outcome: Any, replicas: int) -> None:
    """Everything but the load's own topic."""
    assert outcome["clean"]
    assert outcome["duplicates"] == 0
    assert {"late", "halfway"} <= set(outcome["groups"])
    counts = {(row["topic"], row["partition"]): row["target"] for row in outcome["partitions"]}
    assert counts["orders", 0] == 600  # 500 and two transactions; the aborted one did not come
    assert counts["orders", 1] == 2
    here, there = (Connection(bootstrap, {}, 60) for bootstrap in (source, target))
    assert set(ACLS) <= set(all_acls(there))
    for topic in ("orders", "orders.by-key", "empty"):
        own = [
            {
                row["name"]: row["value"]
                for row in read_configs(side, "topic", topic)
                if row["source"] == "topic"
            }
            for side in (here, there)
        ]
        assert own[0].items() <= own[1].items()
    about = there.admin().list_topics(timeout=30).topics
    assert {len(one.replicas) for one in about["orders"].partitions.values()} == {replicas}
    assert not [name for name in about if "mm2" in name or name.endswith(".internal")]
    # The same record comes next: offset 520 is in the aborted transaction, 553 in the first
    # committed one.
    for group in ("late", "halfway"):
        assert next_value(source, group, "orders", 0) == next_value(target, group, "orders", 0)
    assert read_group(there, there.admin(), "loader").lag(("live", 0)) is None


def run_under_load(source: str, folder: Path, *arguments: str) -> tuple[Trickle, Any, list[str]]:
    """Moves while a producer works; it stops when the command says so."""
    load = Trickle(source)
    try:
        mover = Mover(folder, *arguments)
        assert mover.in_step.wait(200)
    finally:
        load.stop()
    return load, mover.outcome(), mover.said


def prepared(broker: KBroker | KafkaCluster) -> None:
    write_all_kinds(broker.bootstrap)
    create_acls(Connection(broker.bootstrap, {}, 60), ACLS)
    commit(broker.bootstrap, "late", TopicPartition("orders", 0, 553), TopicPartition("orders", 1, 1))
    commit(
        broker.bootstrap, "halfway", TopicPartition("orders", 0, 520), TopicPartition("orders.by-key", 0, 501)
    )


def test_a_kbroker_moves_to_a_cluster_under_load(
    cluster: KafkaCluster, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    broker = broker_factory(KAFKAS_AUTHORIZER)
    prepared(broker)
    load, outcome, reported = run_under_load(
        broker.bootstrap, tmp_path, "move", "--bootstrap", broker.bootstrap, "--to", cluster.bootstrap
    )
    check_arrival(broker.bootstrap, cluster.bootstrap, outcome, replicas=3)
    arrived = read_all(cluster.bootstrap, "live")
    assert {partition: list(values.values()) for partition, values in arrived.items()} == load.acknowledged
    assert min(map(len, load.acknowledged.values())) > 100
    assert f"verified. Start the clients with bootstrap.servers={cluster.bootstrap}" in reported


def test_a_cluster_is_imported_into_kbroker(
    cluster: KafkaCluster, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """The way back: the topics that the test before has moved there, and what was written since."""
    broker = broker_factory(KAFKAS_AUTHORIZER)
    names = ("orders", "orders.by-key", "empty")
    commit(cluster.bootstrap, "late", TopicPartition("orders", 0, 20))
    topics = [word for name in names for word in ("--topic", name)]
    mover = Mover(tmp_path, "import", "--bootstrap", broker.bootstrap, "--from", cluster.bootstrap, *topics)
    outcome = mover.outcome()
    check_arrival(cluster.bootstrap, broker.bootstrap, outcome, replicas=1)


def identities(table: dict[str, Any], which: Any) -> list[tuple[int, int]]:
    """Producer and sequence number of these rows, in order."""
    return sorted(zip(table["producer"][which].tolist(), table["seq"][which].tolist(), strict=True))


@pytest.mark.spark
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("way", ["move", "import"])
def test_clients_of_a_load_test_switch_and_its_whole_history_is_clean(
    way: str, cluster: KafkaCluster, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """The consumers leave in the middle of the log: at the target their group continues with the
    next record, and gets each record once. A kbroker that was the source is stopped before the
    clients start at the target. The judge of `make prove` reads the log of the target."""
    pytest.importorskip("pyspark", reason="`make venv-spark` brings it")
    broker = broker_factory(KAFKAS_AUTHORIZER)
    source, target = (broker, cluster) if way == "move" else (cluster, broker)
    load = PlayedLoad(tmp_path / "run", source.bootstrap, LOAD)
    try:
        load.start()
        words = [way, "--bootstrap", broker.bootstrap, OTHER_SIDE[way], cluster.bootstrap]
        for topic in load.conductor.run.topics:  # the cluster has more
            words += ["--topic", topic.name]
        mover = Mover(tmp_path, *words)
        assert mover.in_step.wait(200)
        eventually(lambda: load.seen() > SWITCHED)
        load.stop("consume")
        unread = load.acknowledged()
        eventually(lambda: load.acknowledged() > unread + SWITCHED)
        load.stop("produce")
        outcome = mover.outcome()
        if way == "move":
            broker.stop()
        load.go_to(target.bootstrap)
        load.start()
        eventually(lambda: load.acknowledged() > SWITCHED)
        load.stop("produce")
        load.stop("consume", CATCH_UP)
        assert load.finish()
    finally:
        load.kill()
    assert outcome["clean"]
    assert outcome["duplicates"] == 0
    assert len(load_producers(load.folder)) == 2  # one at either side
    assert not any(judge(load.folder).values()), judge(load.folder)
    sends, reads = rows(load.folder, "sends"), rows(load.folder, "reads")
    members = [one.consumer for one in load_consumers(load.folder) if one.group]
    acknowledged = identities(sends, sends["status"] == SendStatus.ACKED)
    assert identities(reads, np.isin(reads["consumer"], members)) == acknowledged
    figures = clean_verdict(load.folder, "--bootstrap", target.bootstrap)
    assert figures["records"]["sends"] == len(acknowledged) > 2 * SWITCHED
