"""A log of another run is no evidence; one whose values are all altered is."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from spark_validation.verdict import CannotJudge, Verdict
from tests.spark_validation.world import PARTITIONS, RUN, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

HOUR_MS = 3_600_000


def judged(folder: Path) -> Verdict:
    options = argparse.Namespace(
        history=folder / "run", bootstrap=None, segments=str(folder / "data"), earlier=None, topics=None
    )
    with open_evidence(options) as evidence:
        return Judge(evidence).run()


def alter(how: Callable[[bytes], bytes]) -> Topic:
    """All values of a topic, when everybody had read it."""
    topic = clean("calm", 1)
    for partition in range(PARTITIONS):
        for _, record, _ in topic.records(partition):
            record.value = how(record.bytes())
    return topic


@pytest.mark.parametrize("how", [lambda value: value[:-1] + b"X", lambda value: bytes(len(value))])
def test_a_broker_that_alters_all_values_is_convicted_of_each(
    tmp_path: Path, how: Callable[[bytes], bytes]
) -> None:
    topic = alter(how)
    write(tmp_path, [topic])
    rows = judged(tmp_path).results["V02"].convicting
    assert {row["kind"] for row in rows} == {"altered value"}
    places = {(p, offset) for p in range(PARTITIONS) for offset, _, _ in topic.records(p)}
    assert {(row["partition"], row["offset"]) for row in rows} == places


def test_a_log_of_another_run_cannot_be_judged(tmp_path: Path) -> None:
    """Its records lie at the same places, and were sent an hour before."""
    write(tmp_path, [clean("calm", 1)])
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"run": RUN + 1}))
    for file in (tmp_path / "run" / "sends").glob("*.parquet"):
        rows = pq.read_table(file)
        for name, by in (("timestamp_ms", HOUR_MS), ("intended_ns", HOUR_MS * 1_000_000)):
            later = pc.add(rows[name], pa.scalar(by, pa.int64()))
            rows = rows.set_column(rows.schema.get_field_index(name), name, later)
        pq.write_table(rows, file)
    with pytest.raises(CannotJudge, match=f"no record of the log is of run {RUN + 1}"):
        judged(tmp_path)
