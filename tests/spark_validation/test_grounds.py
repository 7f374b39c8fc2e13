"""No evidence is not innocence: what a run must show before the judge calls it clean."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import SparkSession

from kbroker.protocol.records import ControlType
from spark_validation.checks import fencing, group_coverage, markers, shares
from spark_validation.cli import closing_line
from spark_validation.evidence import LOG_SCHEMA, Evidence
from spark_validation.grounds import weigh
from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from spark_validation.options import CANNOT_JUDGE, CLEAN, CONVICTED
from spark_validation.verdict import CannotJudge, Verdict
from tests.spark_validation.copy_mutations import copy_from
from tests.spark_validation.share_mutations import RELEASED, never_shared, release_and_forget, share
from tests.spark_validation.world import START_NS, Batch, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

TOPIC = "calm"
PRODUCER, READER = 10, 10
NS = 1_000_000_000


def options(folder: Path) -> argparse.Namespace:
    return argparse.Namespace(
        history=folder / "run", bootstrap=None, segments=str(folder / "data"), earlier=None, topics=None
    )


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("first")
    write(folder, [clean(TOPIC, 1)])
    with open_evidence(options(folder)) as evidence:
        session = evidence.spark
    yield session
    session.stop()


def edit_run(folder: Path, **changes: object) -> None:
    path = folder / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_clients(folder: Path, pattern: str, **changes: object) -> None:
    for path in (folder / "run" / "clients").glob(pattern):
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {k: v for k, v in changes.items() if k in content}))


def drop(folder: Path, kind: str, who: str, number: int, column: str, value: int) -> None:
    """Take one row out of a history."""
    for path in (folder / "run" / kind).glob("*.parquet"):
        rows = pq.read_table(path)
        gone = pc.and_(pc.equal(rows[who], number), pc.equal(rows[column], value))
        assert pc.any(gone).as_py()
        pq.write_table(rows.filter(pc.invert(gone)), path)


def reads_of(folder: Path, consumer: int) -> Any:
    rows = pq.read_table(folder / "run" / "reads")
    return rows.filter(pc.equal(rows["consumer"], consumer))


def twice(folder: Path, kind: str, who: str, number: int, column: str, value: int) -> None:
    """Put one row into a history again."""
    for path in (folder / "run" / kind).glob("*.parquet"):
        rows = pq.read_table(path)
        again = pc.and_(pc.equal(rows[who], number), pc.equal(rows[column], value))
        assert pc.any(again).as_py()
        pq.write_table(pa.concat_tables([rows, rows.filter(again)]), path)


def client_file(folder: Path, role: str, number: int) -> Path:
    return folder / "run" / "clients" / f"{role}{number:06d}.json"


def empty(folder: Path, kind: str) -> None:
    for path in (folder / "run" / kind).glob("*.parquet"):
        path.unlink()


def last_seq(folder: Path) -> int:
    rows = pq.read_table(folder / "run" / "sends")
    return int(pc.max(rows.filter(pc.equal(rows["producer"], PRODUCER))["seq"]).as_py())


CUT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no sends": (lambda f: empty(f, "sends"), "no acknowledged send"),
    "no reads": (lambda f: empty(f, "reads"), "no delivered record"),
    "no end": (lambda f: edit_run(f, ended_ns=None), "did not end by itself"),
    "no drain": (lambda f: edit_clients(f, "c*.json", finished=False), f"drain reached the end of: {TOPIC}"),
    "a send within is gone": (lambda f: drop(f, "sends", "producer", PRODUCER, "seq", 3), "sends of producers"),
    "the last send is gone": (
        lambda f: drop(f, "sends", "producer", PRODUCER, "seq", last_seq(f)), "sends of producers"
    ),
    "the last read is gone": (
        lambda f: drop(f, "reads", "consumer", READER, "position", len(reads_of(f, READER)) - 1),
        "deliveries of consumers",
    ),
    "a reader without a file": (lambda f: client_file(f, "c", READER).unlink(), "reads name clients"),
    "a producer without a file": (lambda f: client_file(f, "p", PRODUCER).unlink(), "sends name clients"),
    "a read within is gone": (lambda f: drop(f, "reads", "consumer", READER, "position", 4), "deliveries"),
    "a send is there twice": (lambda f: twice(f, "sends", "producer", PRODUCER, "seq", 3), "sends of producers"),
    "a read is there twice": (lambda f: twice(f, "reads", "consumer", READER, "position", 4), "deliveries"),
    "intents go further than sends": (
        lambda f: (f / "run" / "intents" / f"p{PRODUCER:06d}.jsonl").open("a").write(
            f'{{"producer": {PRODUCER}, "first_seq": {last_seq(f) + 5}, "last_seq": 9999, "at_ns": 0}}\n'
        ),
        "sends of producers",
    ),
}  # fmt: skip


def weighed(folder: Path, spark: SparkSession, log: list[dict[str, Any]] | None = None) -> Verdict:
    evidence = Evidence(spark, folder / "run", spark.createDataFrame(log or [], LOG_SCHEMA), "segments")
    verdict = Verdict()
    verdict.records = {
        "sends": evidence.acked.count(),
        "log": 1,
        "reads": evidence.reads.count(),
    }
    weigh(evidence, verdict)
    return verdict


@pytest.mark.parametrize("name", CUT)
def test_a_run_without_the_evidence_cannot_be_judged(tmp_path: Path, spark: SparkSession, name: str) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    cut, reason = CUT[name]
    cut(tmp_path)
    verdict = weighed(tmp_path, spark)
    assert any(reason in missing for missing in verdict.missing), verdict.missing
    assert verdict.exit_code == CANNOT_JUDGE
    assert closing_line(verdict).startswith("CANNOT JUDGE: ")


def test_a_killed_producer_may_lack_outcomes(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    drop(tmp_path, "sends", "producer", PRODUCER, "seq", last_seq(tmp_path))
    edit_clients(tmp_path, f"p{PRODUCER:06d}.json", ended_ns=None)
    assert weighed(tmp_path, spark).missing == []


def cut_everything(folder: Path) -> None:
    """Of a run of three topics, in many ways at once."""
    run = folder / "run"
    ends = json.loads((run / "run.json").read_text())["ends"]
    del ends["copies"]["1"]
    edit_run(folder, ends=ends, drained=False)
    edit_clients(folder, "c000012.json", finished=False)
    (run / "intents" / "p000010.jsonl").unlink()
    path = run / "transactions" / "t000002-0000.parquet"
    rows = pq.read_table(path)
    second = pc.and_(pc.equal(rows["producer"], 20), pc.equal(rows["transaction"], 1))
    pq.write_table(rows.filter(pc.invert(second)), path)
    for kind in ("commits", "copies", "shares"):
        empty(folder, kind)
    (run / "reads" / "t000003-0000.parquet").unlink()


def shared(topic: Topic) -> Topic:
    share(topic)
    return topic


def copied(topic: Topic, source: str) -> Topic:
    copy_from(source)(topic)
    return topic


def test_each_history_that_is_missing_is_named(tmp_path: Path, spark: SparkSession) -> None:
    ended = clean("ended", 2, "transactional")
    write(tmp_path, [shared(clean(TOPIC, 1)), ended, copied(clean("copies", 3, "copied"), TOPIC)])
    assert weighed(tmp_path, spark).missing == []
    cut_everything(tmp_path)
    assert weighed(tmp_path, spark).missing == [
        "the run says that its logs were not all read to their ends",
        "run.json names no end of: copies-1",
        f"no read_committed drain reached the end of: {TOPIC}",
        "transactions of producers that ended by themselves are missing, or there twice: 20",
        "deliveries of consumers are missing, or there twice: 30, 31, 32",
        "no intent is recorded of what was sent by producers: 10",
        "no commit is recorded of the groups: calm-readers, copies-copiers, copies-readers, ended-readers",
        "no copy is recorded of producers: 30, 31",
        "no delivery is recorded of the share groups: calm-sharers",
        "no delivered record is recorded of: copies",
    ]


def test_a_killed_producer_lacks_no_more_than_its_last_seconds(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    edit_clients(tmp_path, f"p{PRODUCER:06d}.json", ended_ns=None)
    record: dict[str, Any] = {name.split()[0]: 0 for name in LOG_SCHEMA.split(", ")}
    record |= {"topic": TOPIC, "producer": PRODUCER, "seq": 900, "intact": True}
    assert weighed(tmp_path, spark, [record | {"intended_ns": START_NS + 20 * NS}]).missing == []
    (missing,) = weighed(tmp_path, spark, [record | {"intended_ns": START_NS + 40 * NS}]).missing
    assert missing.startswith(
        f"sends of killed producers are missing, and of more than their last seconds: {PRODUCER}"
    )


def test_a_complete_run_is_clean_and_names_its_evidence(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    with open_evidence(options(tmp_path)) as evidence:
        verdict = Judge(evidence).run()
    assert (verdict.missing, verdict.exit_code) == ([], CLEAN)
    assert verdict.results["V01"].basis == verdict.records["sends"] > 0
    assert verdict.results["V20"].basis == verdict.records["sends"]
    assert not verdict.results["V12"].judged  # nothing was copied
    weakest = verdict.weakest
    assert weakest is not None
    assert weakest.basis == min(r.basis for r in verdict.results.values() if r.judged and r.basis is not None)


def test_times_of_clocks_that_were_set_have_no_order(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    edit_run(tmp_path, clock_steps=[{"at_ns": 1, "step_ns": 7_000_000}])
    judge = Judge(Evidence(spark, tmp_path / "run", spark.createDataFrame([], "offset bigint"), "segments"))
    judge.judge_real_time()
    assert judge.verdict.results["V20"].verdict == "not judged"


def test_a_commit_marker_for_nothing_is_proof_where_nothing_was_repeated(
    tmp_path: Path, spark: SparkSession
) -> None:
    topic = clean(TOPIC, 1, "transactional")
    end, producer_id = topic.log[0][-1].end, topic.log[0][-1].producer_id
    for at in (end, end + 1):  # after an abort, and again
        topic.log[0].append(Batch(at, [], producer_id, control=ControlType.COMMIT))
    write(tmp_path, [topic])

    def found() -> list[tuple[int, bool]]:
        with open_evidence(options(tmp_path)) as evidence:
            assert evidence.batches is not None
            rows = markers.idle(evidence, evidence.batches).collect()
        return [(row["offset"], row["convicts"]) for row in rows]

    assert found() == [(end, True), (end + 1, True)]
    (tmp_path / "run" / "faults.jsonl").write_text('{"fault": "reset"}\n')
    assert found() == [(end, True), (end + 1, False)]


def lacking(number: int, at: int) -> Topic:
    """Whose group was not given one record of partition 0."""
    topic = clean(f"lacking{number}", number)
    topic.rows["reads"].remove(topic.reads_of(topic.reader, 0)[at])
    return topic


def begun_by_latest(number: int) -> Topic:
    """Whose share group begins at the log's end, before all records, and gets partition 0 alone."""
    topic = shared(clean("latest", number))
    topic.rows["shares"] = [
        row | {"acquired_ns": row["acquired_ns"] - 40 * NS}
        for row in topic.rows["shares"]
        if row["partition"] == 0
    ]
    return topic


def two_lives(folder: Path, topic: Topic) -> set[int]:
    """Makes the first producer an earlier life of the second; gives numbers of what it was
    acknowledged when the second had begun."""
    first, second = topic.producers
    for producer, started in ((first, START_NS - NS), (second, START_NS)):
        edit_clients(folder, f"p{producer:06d}.json", transactional_id="both", started_ns=started)
    fenced_ns = min(row["begin_ns"] for row in topic.rows["transactions"] if row["producer"] == second)
    late = [row for row in topic.rows["sends"] if row["producer"] == first and row["sent_ns"] > fenced_ns]
    return {row["seq"] for row in late}


def test_members_and_producers_of_other_ends(tmp_path: Path, spark: SparkSession) -> None:
    """A killed member is no excuse for what was skipped long before; a share group that begins at
    the end has begun once it was given a record; the life before takes no more part."""
    topics = [lacking(1, 9), lacking(2, -1), begun_by_latest(3), clean("lives", 4, "transactional")]
    write(tmp_path, topics)
    edit_clients(tmp_path, "c0000[12]0.json", ended_ns=None)
    edit_clients(tmp_path, "c00003[45].json", offset_reset="latest")
    late = two_lives(tmp_path, topics[3])
    with open_evidence(options(tmp_path)) as evidence:
        missing = group_coverage.undelivered(evidence).collect()
        unshared = shares.undelivered(evidence).collect()
        heard = fencing.accepted_after_fencing(evidence)
        assert heard is not None
        acknowledged = heard.where("kind like 'acknowledged%'").collect()
    assert {(row["topic"], row["partition"], row["offset"], row["convicts"]) for row in missing} == {
        ("lacking1", 0, 9, True),
        ("lacking2", 0, topics[1].log[0][-1].end - 1, False),
    }
    assert {row["offset"] for row in unshared if row["partition"] == 1} == {
        offset for offset, _, _ in topics[2].records(1)
    }
    assert {row["partition"] for row in unshared} == {1}
    assert {row["seq"] for row in acknowledged} == late
    assert late


@pytest.mark.parametrize(("before_s", "convicts"), [(60, True), (36, True), (20, False), (1, False)])
def test_a_lost_answer_may_hold_what_a_share_group_was_not_given(
    tmp_path: Path, spark: SparkSession, before_s: int, convicts: bool
) -> None:
    """A fault lets go of a fetch's answer, but not of its locks: they last 30 s."""
    topics = [clean("forgets", 1), clean("lacks", 2)]
    release_and_forget(topics[0])
    never_shared(topics[1])
    write(tmp_path, topics)
    edit_run(tmp_path, faults=1)
    with open_evidence(options(tmp_path)) as evidence:
        until = {c.group: c.ended_ns for c in evidence.consumer_clients if c.role == "share"}
    assert len(set(until.values())) == 1
    end_ns = max(ended_ns or 0 for ended_ns in until.values()) - before_s * NS
    fault = {"fault": "reset", "begin_ns": end_ns - NS, "end_ns": end_ns}
    (tmp_path / "run" / "faults.jsonl").write_text(json.dumps(fault) + "\n")
    with open_evidence(options(tmp_path)) as evidence:
        for check in (shares.forgotten, shares.undelivered):
            assert [row["convicts"] for row in check(evidence).collect()] == [convicts], check.__name__


@pytest.mark.parametrize(
    ("error", "fault", "convicts"), [(-1, True, False), (-1, False, True), (0, True, True)]
)
def test_a_count_is_forgotten_by_who_dies_before_the_acknowledgement(
    tmp_path: Path, spark: SparkSession, error: int, fault: bool, convicts: bool
) -> None:
    topic = clean("counts", 1)
    share(topic)
    first, second = (
        row for row in topic.rows["shares"] if (row["partition"], row["offset"]) == (0, RELEASED)
    )
    first["error"], second["delivery"] = error, 1
    write(tmp_path, [topic])
    if fault:
        edit_run(tmp_path, faults=1)
        between_ns = (first["acquired_ns"] + second["acquired_ns"]) // 2
        row = {"fault": "kill", "begin_ns": between_ns - 1, "end_ns": between_ns}
        (tmp_path / "run" / "faults.jsonl").write_text(json.dumps(row) + "\n")
    with open_evidence(options(tmp_path)) as evidence:
        found = shares.repeated(evidence).collect()
    assert [(row["kind"], row["convicts"]) for row in found if row["kind"] == shares.TWICE] == [
        (shares.TWICE, convicts)
    ]


def test_two_logs_of_one_partition_cannot_be_judged(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    both = options(tmp_path)
    both.segments = f"{tmp_path / 'data'},{tmp_path / 'earlier'}"
    with pytest.raises(CannotJudge, match=f"two logs of {TOPIC}-0"):
        open_evidence(both)


def test_a_conviction_holds_whatever_is_missing() -> None:
    verdict = Verdict()
    verdict.missing.append("a reason")
    verdict.add([{"anomaly": "V01", "kind": "gone", "convicts": True}])
    assert verdict.exit_code == CONVICTED
