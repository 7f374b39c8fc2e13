"""By spark-submit on a master and two workers the judge comes to the verdicts of local mode."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.scale.cluster import SparkCluster
from tests.spark_validation.mutations import world
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

CLEAN = ("clean", "clean-transactional")
PLANTED = ("value-altered", "tail-lost")
ALTERED = 7  # the offset of the record that `value-altered` spoils


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that driver and workers share: histories and segments."""
    folder = tmp_path_factory.mktemp("shared")
    topics = world()
    write(folder, [topics[name][0] for name in (*CLEAN, *PLANTED)])
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark") / "cluster") as running:
        yield running


def words(shared: Path, report: Path, topics: tuple[str, ...]) -> list[str]:
    evidence = [
        "--history",
        f"{shared}/run",
        "--segments",
        f"{shared}/data",
        "--earlier",
        f"{shared}/earlier",
    ]
    return ["judge", *evidence, "--topics", ",".join(topics), "--report", str(report)]


def results(report: Path) -> dict[str, Any]:
    """What a report says of each anomaly."""
    found: dict[str, Any] = json.loads(report.with_suffix(".json").read_text())["results"]
    return found


def found_in(report: Path, topic: str) -> Counter[tuple[str, str]]:
    """What the report finds in a topic, as `test_planted` counts it in local mode."""
    return Counter(
        (name, row["kind"])
        for name, result in results(report).items()
        for row in result["findings"]
        if row["topic"] == topic
    )


def test_a_planted_anomaly_is_convicted_through_the_cluster_as_in_local_mode(
    cluster: SparkCluster, shared: Path, tmp_path: Path
) -> None:
    topics = (*CLEAN, *PLANTED)
    there = tmp_path / "cluster.html"
    landing = shared / "landing"
    before = cluster.tasks()
    done = cluster.submit(*words(shared, there, topics), "--landing", str(landing))
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    expected = {topic: world()[topic][1] for topic in topics}
    assert {topic: dict(found_in(there, topic)) for topic in topics} == expected
    altered = [row for row in results(there)["V02"]["findings"] if row["topic"] == "value-altered"]
    assert [(row["partition"], row["offset"], row["kind"]) for row in altered] == [
        (0, ALTERED, "altered value")
    ]
    ran = cluster.tasks() - before
    assert min(ran[f"worker-{number}"] for number in range(2)) > 0, ran
    assert list(landing.iterdir()) == []


def test_a_clean_run_is_clean_without_a_landing_too(
    cluster: SparkCluster, shared: Path, tmp_path: Path
) -> None:
    report = tmp_path / "cluster.html"
    done = cluster.submit(*words(shared, report, ("clean",)))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert not any(result["findings"] for result in results(report).values())
