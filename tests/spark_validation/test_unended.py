"""A run whose conductor was killed has no end: when the log changed last is not known, and what is
known still convicts."""

import argparse
import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from spark_validation.options import CANNOT_JUDGE, CONVICTED
from spark_validation.verdict import Verdict
from tests.spark_validation.compaction_mutations import compact
from tests.spark_validation.mutations import overwrite_a_value
from tests.spark_validation.removal_mutations import tombstone_expired
from tests.spark_validation.world import MS, START_NS, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

LATE_MS = 300_000


def later_markers(topic: Topic) -> None:
    """Of a run that lasted for minutes."""
    for batch in (batch for batches in topic.log.values() for batch in batches if batch.control is not None):
        late = START_NS // MS + LATE_MS
        batch.patch = {"base_timestamp": late, "max_timestamp": late}


def judged(folder: Path, altered: bool) -> Verdict:
    topics = [
        clean("compacted", 1),
        clean("buried", 2),
        clean("marked", 3, "transactional"),
        clean("altered", 4),
    ]
    compact(topics[0])
    tombstone_expired(topics[1])
    later_markers(topics[2])
    if altered:
        overwrite_a_value(topics[3])
    write(folder, topics)
    path = folder / "run" / "run.json"
    cut: dict[str, object] = {
        "ended_ns": None,
        "ends_ns": None,
        "ends": {},
        "committed": {},
        "drained": False,
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | cut))
    options = argparse.Namespace(
        history=folder / "run", bootstrap=None, segments=str(folder / "data"), earlier=None, topics=None
    )
    with open_evidence(options) as evidence:
        return Judge(evidence).run()


def test_a_run_without_an_end_cannot_be_judged_and_convicts_nobody(tmp_path: Path) -> None:
    verdict = judged(tmp_path, altered=False)
    assert (verdict.convicted(), verdict.exit_code) == ({}, CANNOT_JUDGE)
    assert "the run did not end by itself: its histories stop somewhere" in verdict.missing


def test_an_anomaly_in_a_run_without_an_end_is_convicted(tmp_path: Path) -> None:
    verdict = judged(tmp_path, altered=True)
    assert (verdict.convicted(), verdict.exit_code) == ({"V02": 1}, CONVICTED)
    (row,) = verdict.results["V02"].convicting
    assert (row["topic"], row["partition"], row["offset"]) == ("altered", 0, 7)
