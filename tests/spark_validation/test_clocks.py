"""Clocks that were set while a load ran: times that a step may have moved convict no broker."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import SparkSession

from spark_validation.checks import latency, stable_reads
from spark_validation.evidence import Evidence
from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from spark_validation.options import CLEAN
from tests.spark_validation.field_mutations import append_time_back, append_time_wrong
from tests.spark_validation.group_mutations import own_twice
from tests.spark_validation.mutations import commit_backwards, see_it_too_soon
from tests.spark_validation.outside_mutations import FOLLOWING, end_late
from tests.spark_validation.world import BATCH, MS, START_NS, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

STEP_NS = 5_000_000_000
STEPS = [{"at_ns": START_NS, "step_ns": STEP_NS}]
TIMED: dict[str, Callable[[Topic], object]] = {
    "appended-wrong": append_time_wrong,
    "appended-back": append_time_back,
    "seen-early": see_it_too_soon,
    "commit-back": commit_backwards,
    "two-owners": own_twice,
}
"""Of planted anomalies, those that times alone show; test_planted convicts each."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from spark_validation.session import spark_session

    session = spark_session(small=True)
    yield session
    session.stop()


def opened(folder: Path) -> Evidence:
    options = argparse.Namespace(
        history=folder / "run", bootstrap=None, segments=str(folder / "data"), earlier=None, topics=None
    )
    return open_evidence(options)


def change(folder: Path, **changes: Any) -> None:
    path = folder / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_findings_by_times_are_counted_at_most(tmp_path: Path, spark: SparkSession) -> None:
    topics = [clean(name, number) for number, name in enumerate(TIMED, 1)]
    for topic in topics:
        TIMED[topic.name](topic)
    write(tmp_path, topics)
    change(tmp_path, clock_steps=STEPS)
    with opened(tmp_path) as evidence:
        verdict = Judge(evidence).run()
    assert (verdict.convicted(), verdict.missing, verdict.exit_code) == ({}, [], CLEAN)
    assert not verdict.results["V20"].judged
    counted = {(row["topic"], name) for name, result in verdict.results.items() for row in result.counted}
    assert counted == {("commit-back", "V09"), ("two-owners", "V08"), ("two-owners", "V09")}


@pytest.mark.parametrize(("fault", "convicts"), [("clock", False), ("reset", True)])
def test_a_broker_whose_clock_was_set_may_end_a_transaction_early(
    tmp_path: Path, spark: SparkSession, fault: str, convicts: bool
) -> None:
    topic = clean("calm", 1, "transactional")
    end_late(0)(topic)
    write(tmp_path, [topic])
    row = {"fault": fault, "begin_ns": START_NS, "end_ns": START_NS + MS}
    (tmp_path / "run" / "faults.jsonl").write_text(json.dumps(row) + "\n")
    with opened(tmp_path) as evidence:
        rows = stable_reads.above_open(evidence).collect()
    first = FOLLOWING // 2 * (BATCH + 1)
    assert {row["offset"] for row in rows} == set(range(first, first + BATCH))
    assert {row["convicts"] for row in rows} == {convicts}


@pytest.mark.parametrize(
    ("before_ms", "slowest_ms"), [(None, 5000.0), (900, 3.0), (1100, 3.0), (7000, 5000.0)]
)
def test_acks_near_a_step_of_the_clock_are_not_measured(
    tmp_path: Path, spark: SparkSession, before_ms: int | None, slowest_ms: float
) -> None:
    """A second and the step itself, on both sides of it."""
    topic = clean("calm", 1)
    slow = topic.rows["sends"][-1]
    slow["acked_ns"] = slow["intended_ns"] + 5000 * MS
    write(tmp_path, [topic])
    if before_ms is not None:
        change(tmp_path, clock_steps=[{"at_ns": slow["acked_ns"] + before_ms * MS, "step_ns": 200 * MS}])
    with opened(tmp_path) as evidence:
        acked = latency.latencies(evidence)[0]
    assert acked.at("max") == slowest_ms
