"""The streaming job: planted anomalies are named during the run, clean topics never, over a
restart too."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.checks.places import OTHER_KEYS
from spark_validation.live.job import LiveJob
from spark_validation.opening import open_evidence
from tests.spark_validation.mutation import Expected
from tests.spark_validation.mutations import world
from tests.spark_validation.world import Topic
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

LATE = "clean"  # its sends come after its records were judged without them
SEEN = ("V02", "a consumer saw an altered value")
GONE = ("V01", "nothing at its offset")
Found = dict[str, Expected]


IN_THE_LOG, STARTS, CLOCKS, ANYWHERE, ACKS_0, CLIENTS_SAY = (
    "the log's end moves: an acknowledged record beyond it is a missing one",
    "what retention and DeleteRecords may have taken is in run.json when the run has ended",
    "clocks that a fault has set are written down when the fault is over",
    "acknowledged without an offset: it may be anywhere in the log",
    "a record without an acknowledged offset has no bucket: it is compared with all sends, once",
    "sends and log agree, so that nothing is compared: all sends are looked at once",
)
AT_THE_END = {  # findings that only the end of the run brings, and why
    ("V01", "beyond the log's end"): IN_THE_LOG,
    ("V01", "below a log start that nothing allows"): STARTS,
    ("V15", "log start moved without a reason"): STARTS,
    ("V15", "log start below a confirmed DeleteRecords"): STARTS,
    ("V01", "nowhere in the log"): ANYWHERE,
    ("V02", "append time outside of its request"): CLOCKS,
    ("V02", OTHER_KEYS): CLIENTS_SAY,
}
LIVE = ("V01", "V02", "V05")


def expected_live(topic: Topic, expected: Expected, ended: bool) -> Expected:
    """Of a mutation's findings those that the job names, and what its consumers saw."""
    requested: Expected = {}
    for (anomaly, kind), count in expected.items():
        reason = ACKS_0 if topic.acks == "0" else AT_THE_END.get((anomaly, kind))
        if (ended and reason is STARTS) or (anomaly in LIVE and "not visible" not in kind):
            if ended or reason is None:
                requested[anomaly, kind] = count
            elif reason is IN_THE_LOG:
                requested[GONE] = count
    if not ended and topic.log[0] and topic.log[0][0].base:  # below the present start nothing is judged
        requested.pop(GONE, None)
    altered = sum(not row["intact"] for row in topic.rows["reads"])
    return requested | ({SEEN: altered} if altered else {})


def expected_in_all(ended: bool) -> Found:
    requested = {name: expected_live(topic, expected, ended) for name, (topic, expected) in world().items()}
    return {name: kinds for name, kinds in requested.items() if kinds}


def life(folder: Path) -> LiveJob:
    """One life of the job: it ends with the run, or after what there is has been judged."""
    options = argparse.Namespace(
        history=folder / "run",
        bootstrap=None,
        segments=str(folder / "data"),
        topics=None,
        seconds=0.1,
        grace=0.0,
        patience=600.0,
        report=folder / "live.html",
        checkpoint=folder / "kept",
    )
    with open_evidence(options, following=True) as evidence:
        job = LiveJob(evidence, options)
        job.follow()
    return job


def findings(job: LiveJob) -> Found:
    rows = [row for result in job.verdict.results.values() for row in (*result.convicting, *result.counted)]
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        found.setdefault(row["topic"], Counter())[row["anomaly"], row["kind"]] += 1
    return {topic: dict(kinds) for topic, kinds in found.items()}


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveJob, LiveJob, Path]]:
    """A job during the run, while one topic's sends are missing; and the one that continues after
    its kill."""
    folder = tmp_path_factory.mktemp("live")
    write(folder, [topic for topic, _ in world().values()])
    whole = (folder / "run" / "run.json").read_text()
    (folder / "run" / "run.json").write_text(json.dumps(json.loads(whole) | {"ended_ns": None, "ends": {}}))
    late = folder / "run" / "sends" / f"t{world()[LATE][0].number:06d}-0000.parquet"
    hidden = late.rename(late.with_name(f".{late.name}.part"))
    first = life(folder)
    # as after a kill behind the journal and before Spark's commit: the last micro-batch is given
    # once more
    commits = sorted((folder / "kept" / "sends" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink()
    hidden.rename(late)
    (folder / "run" / "run.json").write_text(whole)
    second = life(folder)
    yield first, second, folder
    second.evidence.spark.stop()


def test_exactly_the_planted_anomalies_are_named_during_the_run(
    lives: tuple[LiveJob, LiveJob, Path],
) -> None:
    found, expected = findings(lives[0]), expected_in_all(ended=False)
    assert found == expected
    at_the_end = expected_in_all(ended=True)
    assert {name for name in at_the_end if found.get(name) != at_the_end[name]} >= {
        "tail-lost",
        "deleted-too-much",
        "append-time-wrong",
        "key-silent",
    }


def test_a_restarted_job_continues_and_counts_nothing_twice(
    lives: tuple[LiveJob, LiveJob, Path],
) -> None:
    first, second, folder = lives
    assert findings(second) == expected_in_all(ended=True)
    sends = [
        row
        for topic, _ in world().values()
        for row in topic.rows["sends"]
        if row["status"] == 0 and row["offset"] >= 0
    ]
    assert second.state.totals()["sends"] == len(sends)
    assert second.state.totals()["log"] == first.state.totals()["log"]
    assert second.state.reads == first.state.reads == sum(len(t.rows["reads"]) for t, _ in world().values())
    journal = [json.loads(line) for line in (folder / "kept" / "sent.jsonl").read_text().splitlines()]
    assert {bucket[0] for bucket in journal[-1]["buckets"]} == {LATE}


def test_late_rows_open_their_bucket_again_and_settle_it(lives: tuple[LiveJob, LiveJob, Path]) -> None:
    first, second, _ = lives
    here = [bucket for bucket in first.state.held if bucket[0] == LATE]
    assert len(here) == 2
    assert not any(bucket in first.state.sent for bucket in here)
    assert all(second.state.sent[bucket] == second.state.held[bucket] for bucket in here)
    assert second.state.settled >= set(here)


def test_the_page_names_what_was_found(lives: tuple[LiveJob, LiveJob, Path]) -> None:
    page = (lives[2] / "live.html").read_text()
    assert "Convicted: V01, V02, V05" in page
    assert "http-equiv" not in page  # the run has ended: nothing to reload
