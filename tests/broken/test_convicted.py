"""A broker broken on purpose is convicted of each fault, and a topic it serves well is not."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from tests.broken import load
from tests.broken.proxy import EARLY, FAULTS, FORGETS, LOSES, PAST_LSO, SWAPS, BrokenBroker
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.spark

HONEST = "honest"
TOPICS = [HONEST, *FAULTS]
# which of the anomalies must be among the convictions; a fault may well cause further ones
GUILTY = {LOSES: {"V01", "V02"}, EARLY: {"V01", "V02"}, SWAPS: {"V06"}, FORGETS: {"V04"}, PAST_LSO: {"V11"}}


@pytest.fixture(scope="module")
def convictions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Anomalies by topic, of one load on one broken broker."""
    folder = tmp_path_factory.mktemp("broken")
    proxy = BrokenBroker()
    port = proxy.start()
    node = KBroker(folder / "node", {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    try:
        host, _, real_port = node.start().rpartition(":")
        proxy.upstream = (host, int(real_port))
        bootstrap = f"127.0.0.1:{port}"
        histories = load.Histories(folder / "run", TOPICS)
        load.create(bootstrap, TOPICS)
        for number, topic in enumerate(TOPICS):
            load.produce(histories, bootstrap, number, topic)
        load.drain(histories, bootstrap, 100, TOPICS, "read_uncommitted")
        histories.write(load.drain(histories, bootstrap, 101, TOPICS, "read_committed"))
        assert all(proxy.committed.values()), f"not every fault happened: {proxy.committed}"
    finally:
        proxy.stop()
        node.stop()
    options = argparse.Namespace(
        history=folder / "run", bootstrap=None, segments=str(node.data_dir), earlier=None, topics=None
    )
    judge = Judge(open_evidence(options))
    judge.run()
    found: dict[str, set[str]] = {topic: set() for topic in TOPICS}
    for result in judge.verdict.results.values():
        for row in result.convicting:
            found[row["topic"]].add(row["anomaly"])
    yield found
    judge.evidence.spark.stop()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_convicted(convictions: dict[str, set[str]], fault: str) -> None:
    assert convictions[fault] & GUILTY[fault], f"{fault}: {convictions[fault] or 'nothing found'}"


def test_a_topic_that_the_same_broker_serves_well_is_clean(convictions: dict[str, set[str]]) -> None:
    assert convictions[HONEST] == set()


def test_nothing_is_convicted_of_an_aborted_read_but_the_fault(convictions: dict[str, set[str]]) -> None:
    assert {topic for topic, found in convictions.items() if "V11" in found} == {PAST_LSO}


def test_the_folder_holds_no_faults_of_the_product(tmp_path: Path) -> None:
    """The faults live in tests alone: the product never imports them."""
    root = Path(__file__).parents[2]
    guilty = [
        path for room in ("kbroker", "loadtest", "spark_validation") for path in (root / room).rglob("*.py")
    ]
    assert not [path for path in guilty if "tests.broken" in path.read_text()]
