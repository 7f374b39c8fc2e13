"""The judge finds every planted anomaly, exactly, and nothing else: one judgement over a topic an
anomaly."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.anomalies import ANOMALIES
from spark_validation.checks.latency import Latency
from spark_validation.judge import Judge, apply_limits
from spark_validation.opening import open_evidence
from spark_validation.report.page import as_json, page
from spark_validation.summaries import summarise
from tests.spark_validation.mutation import Expected
from tests.spark_validation.mutations import ALL, world
from tests.spark_validation.outside_mutations import OUTSIDE
from tests.spark_validation.planted_places import OF_CLIENTS, OF_THE_LOG
from tests.spark_validation.real_time_mutations import EXACTLY
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

# their markers may be repeats: clients of the world are killed
REPEATS = {"marker-repeated", "marker-contradicts"}
PLACES = OUTSIDE | OF_THE_LOG | OF_CLIENTS
# shown, but no conviction
CUT = {"cut-drain", "cut-reader", "cut-commits"}
COUNTED = {
    "duplicate-plain",
    "retried-plain",
    "swapped-plain",
    "shared-begins-late",
    "replaced-since",
    "gone-with-killed",
    *CUT,
    *REPEATS,
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("planted")
    # Spark takes milliseconds to open a file, in each of some hundred queries
    write(folder, [topic for topic, _ in world().values()], topics_of_a_file=64)
    options = argparse.Namespace(
        history=folder / "run",
        bootstrap=None,
        segments=str(folder / "data"),
        earlier=str(folder / "earlier"),
        topics=None,
    )
    with open_evidence(options) as evidence:
        judge = Judge(evidence)
        judge.run()
        # Some worlds give records 20 s late: more than 1 % of the sample for visibility lag.
        apply_limits(judge, {"ack": 2.9, "end_to_end": 60.0, "visibility": 60_000.0})
        yield judge
    judge.evidence.spark.stop()


def found_in(judge: Judge, topic: str) -> Counter[tuple[str, str]]:
    return Counter(
        (row["anomaly"], row["kind"])
        for result in judge.verdict.results.values()
        for row in (*result.convicting, *result.counted)
        if row.get("topic") == topic
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [(name, expected) for name, (_, expected) in world().items()],
    ids=list(world()),
)
def test_exactly_the_planted_findings(judged: Judge, name: str, expected: Expected) -> None:
    assert dict(found_in(judged, name)) == expected


@pytest.mark.parametrize("name", EXACTLY)
def test_real_time_is_convicted_at_the_exact_records(judged: Judge, name: str) -> None:
    rows = judged.verdict.results["V20"].convicting
    assert {(row["partition"], row["offset"]) for row in rows if row["topic"] == name} == EXACTLY[name]


@pytest.mark.parametrize("name", ["deleted-given-later", "deleted-twice-given-later"])
def test_reads_of_deleted_records_are_convicted_at_the_exact_records(judged: Judge, name: str) -> None:
    rows = [row for row in judged.verdict.results["V03"].convicting if row["topic"] == name]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(0, 30), (0, 31), (0, 32)]
    assert len({row["consumer"] for row in rows}) == 1


@pytest.mark.parametrize("name", PLACES)
def test_findings_name_the_exact_records(judged: Judge, name: str) -> None:
    anomaly, places = PLACES[name]
    rows = [row for row in judged.verdict.results[anomaly].convicting if row["topic"] == name]
    assert {(row["partition"], row["offset"]) for row in rows} == places


def test_nothing_is_found_outside_of_the_mutated_topics(judged: Judge) -> None:
    known = {name for name, (_, expected) in world().items() if expected}
    rows = [
        row for result in judged.verdict.results.values() for row in (*result.convicting, *result.counted)
    ]
    assert {row["topic"] for row in rows if row.get("topic")} == known


def test_the_log_is_decoded_once_and_kept_as_parquet(judged: Judge) -> None:
    assert judged.evidence.landing is not None
    files = list(Path(judged.evidence.landing.name, "log").iterdir())
    assert sorted(judged.evidence.log.inputFiles()) == sorted(
        file.as_uri() for file in files if file.suffix == ".parquet"
    )


def test_repeats_without_idempotence_are_counted_only(judged: Judge) -> None:
    counted = {row["topic"] for result in judged.verdict.results.values() for row in result.counted}
    assert counted == COUNTED


def test_every_anomaly_has_a_mutation_or_a_limit(judged: Judge) -> None:
    planted = {anomaly for mutation in ALL for anomaly, _ in mutation.expected}
    assert planted | {"V17", "V18"} == {anomaly.id for anomaly in ANOMALIES}


def test_limits_convict_what_is_slower_and_only_that(judged: Judge) -> None:
    assert judged.verdict.results["V18"].kinds() == {"p99 of acknowledged after intended": 1}
    assert judged.verdict.results["V17"].verdict == "clean"
    judged.latencies[3] = Latency("seen after acknowledged", 10, (1.0, 1.0, 61.0, 61.0, 61.0))
    apply_limits(judged, {"visibility": 60.0})
    assert judged.verdict.results["V17"].verdict == "convicted"


def test_the_report_is_one_file_that_names_what_was_found(judged: Judge, tmp_path: Path) -> None:
    html = page(judged.evidence, judged.verdict, summarise(judged.evidence), judged.latencies)
    assert "Convicted: V01, V02" in html
    assert html.count("<svg") == 4
    assert "src=" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert as_json(judged.evidence, judged.verdict, judged.latencies)["exit_code"] == 1
