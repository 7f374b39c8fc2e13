"""Fixtures of the client tests: the same tests against kbroker and against Apache Kafka, which
proves the tests."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import RUNNING
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import AS_A_CLUSTER_OF_ONE, KBroker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    **AS_A_CLUSTER_OF_ONE,
}
"""Apache Kafka of tests.peer runs with the same: groups form at once."""

NUMBERS = itertools.count()


@dataclass(frozen=True)
class Cluster:
    """Where the tests of one run connect to."""

    bootstrap: str
    is_kafka: bool


TopicFactory = Callable[..., str]
NameFactory = Callable[[str], str]


@pytest.fixture(scope="session", params=["kbroker", pytest.param("kafka", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """kbroker, then (tier kafka) Apache Kafka 4.3.1; one of each for all client tests."""
    if request.param == "kafka":
        yield Cluster(request.getfixturevalue("kafka").bootstrap, is_kafka=True)
        return
    node = KBroker(tmp_path_factory.mktemp("clients"), SETTINGS)
    RUNNING.append(node)
    node.start(timeout_s=240)
    yield Cluster(node.bootstrap, is_kafka=False)
    RUNNING.remove(node)
    node.stop()


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    """host:port to connect to."""
    return cluster.bootstrap


@pytest.fixture(scope="session")
def session_admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def admin(session_admin: AdminClient) -> AdminClient:
    """confluent-kafka's admin client."""
    return session_admin


@pytest.fixture
def fresh() -> NameFactory:
    """Gives unused names: `fresh("group")`."""
    return lambda stem: f"{stem}-{next(NUMBERS)}"


@pytest.fixture
def topic(session_admin: AdminClient, fresh: NameFactory) -> TopicFactory:
    """Creates a topic of a fresh name: `topic(partitions=3, **configs)`; `_` stands for `.` in
    names of configs."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = fresh("topic")
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        (future,) = session_admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values()
        future.result(120)
        eventually(lambda: not session_admin.list_topics(name, 10).topics[name].error)
        return name

    return create
