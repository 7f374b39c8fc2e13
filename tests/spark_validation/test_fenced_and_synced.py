"""What a fenced producer wrote without an answer, what the log directory says was synced, and what
a share group was given of what was deleted."""

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import SparkSession

from loadtest.run import Deletion
from spark_validation import digests
from spark_validation.checks import deletions, fencing, retention, shares, topic_ids
from spark_validation.evidence import Evidence
from spark_validation.judge import Judge
from spark_validation.opening import open_evidence
from tests.spark_validation.share_mutations import share
from tests.spark_validation.subtle_mutations import compact_all_but_an_empty_segment
from tests.spark_validation.world import START_NS, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

NS = 1_000_000_000


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


def two_lives(folder: Path, topic: Topic) -> None:
    """The first producer is an earlier life of the second."""
    first, second = topic.producers
    for producer, started_ns in ((first, START_NS - NS), (second, START_NS)):
        path = folder / "run" / "clients" / f"p{producer:06d}.json"
        client = json.loads(path.read_text())
        path.write_text(json.dumps(client | {"transactional_id": "both", "started_ns": started_ns}))


def test_a_record_that_a_fenced_producer_wrote_without_an_answer(tmp_path: Path, spark: SparkSession) -> None:
    """The record that was sent before, and the one that is not in the log, prove nothing."""
    topic = clean("lives", 1, "transactional")
    own = sorted(
        (r for r in topic.rows["sends"] if r["producer"] == topic.producers[0]), key=lambda r: r["seq"]
    )
    last = topic.rows["sends"][-1] | {"seq": 900, "partition_seq": 900, "producer": topic.producers[0]}
    topic.rows["sends"].append(last | {"status": 2, "offset": -1})
    place = (own[-1]["partition"], own[-1]["offset"])
    for row in (own[0], own[-1]):
        row.update(status=2, offset=-1)
    write(tmp_path, [topic])
    two_lives(tmp_path, topic)
    with opened(tmp_path) as evidence:
        found = fencing.accepted_after_fencing(evidence)
        assert found is not None
        written = found.where("kind = 'written when its producer was fenced'").collect()
    assert [(r["partition"], r["offset"]) for r in written] == [place]
    assert written[0]["convicts"]


@pytest.mark.parametrize("name", retention.BEYOND)
@pytest.mark.parametrize(("partition", "above", "found"), [(0, 0, []), (1, 1, [(1, 60)]), (7, 1, [])])
def test_a_log_that_ends_below_a_checkpoint(
    tmp_path: Path, spark: SparkSession, name: str, partition: int, above: int, found: list[tuple[int, int]]
) -> None:
    topic = clean("calm", 1)
    write(tmp_path, [topic])
    end = topic.log[0][-1].end
    assert end == topic.log[1][-1].end == 60
    lines = f"0\n2\ncalm {partition} {end + above}\nanother 0 99\n"
    (tmp_path / "data" / name).write_text(lines)
    with opened(tmp_path) as evidence:
        rows = retention.synced(evidence, digests.log_digests(evidence)).collect()
        assert retention.unreadable(evidence).collect() == []
    assert [(row["partition"], row["offset"]) for row in rows] == found
    assert {row["kind"] for row in rows} <= {retention.BEYOND[name]}


@pytest.mark.parametrize(("above", "found"), [(0, []), (1, [(0, 60)])])
def test_a_cleaner_may_take_the_last_records_below_an_empty_segment(
    tmp_path: Path, spark: SparkSession, above: int, found: list[tuple[int, int]]
) -> None:
    topic = clean("calm", 1)
    compact_all_but_an_empty_segment(topic)
    assert topic.log[0][-1].end == 59
    write(tmp_path, [topic])
    (tmp_path / "data" / retention.RECOVERY).write_text(f"0\n1\ncalm 0 {60 + above}\n")
    with opened(tmp_path) as evidence:
        rows = retention.synced(evidence, digests.log_digests(evidence)).collect()
    assert [(row["partition"], row["offset"]) for row in rows] == found


@pytest.mark.parametrize(("stable", "found"), [(20, [(0, 20)]), (-1, [])])
def test_nothing_holds_back_a_last_stable_offset_in_a_run_without_transactions(
    tmp_path: Path, spark: SparkSession, stable: int, found: list[tuple[int, int]]
) -> None:
    topic = clean("calm", 1)
    topic.last_stable = stable
    write(tmp_path, [topic])
    with opened(tmp_path) as evidence:
        judge = Judge(evidence)
        judge.judge_transactions()
    rows = judge.verdict.results["V10"].convicting
    assert [(row["partition"], row["offset"]) for row in rows] == found


@pytest.mark.parametrize(("broker", "store"), [("kbroker", False), ("unknown", True)])
def test_high_watermarks_of_the_kafka_that_had_the_directory_before(
    tmp_path: Path, spark: SparkSession, broker: str, store: bool
) -> None:
    """The topic was deleted and created again since."""
    write(tmp_path, [clean("calm", 1)])
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"broker": broker}))
    (tmp_path / "data" / retention.REPLICATION).write_text("0\n1\ncalm 0 1000\n")
    if store:
        (tmp_path / "data" / retention.STORE).touch()
    with opened(tmp_path) as evidence:
        assert retention.synced(evidence, digests.log_digests(evidence)).collect() == []


@pytest.mark.parametrize("folder", [False, True])
def test_a_checkpoint_is_of_the_logs_in_its_own_directory(
    tmp_path: Path, spark: SparkSession, folder: bool
) -> None:
    """The log was moved, deleted and created again since the old directory wrote it."""
    write(tmp_path, [clean("calm", 1)])
    old = tmp_path / "old"
    old.mkdir()
    (old / retention.RECOVERY).write_text("0\n1\ncalm 1 1000\n")
    if folder:
        (tmp_path / "data" / "calm-1").rename(old / "calm-1")
    with opened(tmp_path) as evidence:
        evidence.data_dirs.append(str(old))
        found = retention.synced(evidence, digests.log_digests(evidence)).collect()
    assert [row["partition"] for row in found] == [1] * folder


def test_the_copy_of_the_log_lives_until_its_evidence_is_closed(tmp_path: Path, spark: SparkSession) -> None:
    """Spark knows its path alone, so frames of evidence that is not referenced could not be
    read."""
    write(tmp_path, [clean("calm", 1)])
    with opened(tmp_path) as evidence:
        log, landing = evidence.log, evidence.landing
        del evidence
        gc.collect()
        assert log.count() == 120
    assert landing is not None
    assert not Path(landing.name).exists()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"0\n1\ncalm 0 0\n", []),
        (b"0\n2\ncalm 0 0\nanother 1 7\n", []),
        (b"0\n0\n", []),
        (b"0\n1\ncalm 0 x\n", [2]),
        (b"0\n2\ncalm 0 0\n", [3]),
        (b"0\n1\ncalm 0 0\ncalm 1 0\n", [4]),
        (b"1\n1\ncalm 0 0\n", [3]),
        (b"", []),
        (b"\xff\xfe\n", [1]),
    ],
)
def test_checkpoints_of_the_log_directory_that_are_damaged(
    tmp_path: Path, spark: SparkSession, content: bytes, lines: list[int]
) -> None:
    write(tmp_path, [clean("calm", 1)])
    (tmp_path / "data" / retention.CHECKPOINT).write_bytes(content)
    with opened(tmp_path) as evidence:
        rows = retention.unreadable(evidence).collect()
        assert retention.checkpointed(evidence).collect() == []
    assert sorted(int(row["detail"].split()[1]) for row in rows) == lines
    assert {(row["anomaly"], row["kind"]) for row in rows} <= {
        ("V13", "log-start-offset-checkpoint cannot be read")
    }


@pytest.mark.parametrize(("started_s", "found"), [(15, {30, 31, 32}), (0, set())])
def test_a_share_group_is_not_given_what_was_deleted_before_its_member_was_started(
    tmp_path: Path, spark: SparkSession, started_s: int, found: set[int]
) -> None:
    topic = clean("calm", 1)
    share(topic)
    topic.rows["shares"] = [row for row in topic.rows["shares"] if row["partition"] or row["offset"] >= 30]
    topic.start_offset = 33
    topic.deletions = [Deletion(topic.name, 0, 33, True, START_NS, START_NS + 10 * NS)]
    topic.rows["reads"] = [row for row in topic.rows["reads"] if row["partition"] or row["offset"] >= 33]
    write(tmp_path, [topic])
    for path in (tmp_path / "run" / "clients").glob("c00001[45].json"):
        client = json.loads(path.read_text())
        path.write_text(json.dumps(client | {"started_ns": START_NS + started_s * NS}))
    with opened(tmp_path) as evidence:
        rows = deletions.reads_of_deleted(evidence).collect()
    assert {row["offset"] for row in rows} == found


@pytest.mark.parametrize(
    ("reset", "started_ms", "until"), [("latest", 1000, 50), ("latest", 0, 0), ("earliest", 1000, 0)]
)
def test_a_share_group_that_begins_at_the_end_is_not_given_what_was_acknowledged_before(
    tmp_path: Path, spark: SparkSession, reset: str, started_ms: int, until: int
) -> None:
    topic = clean("calm", 1)
    share(topic)
    write(tmp_path, [topic])
    for path in (tmp_path / "run" / "clients").glob("c00001[45].json"):
        started = {"started_ns": START_NS + started_ms * NS // 1000, "offset_reset": reset}
        path.write_text(json.dumps(json.loads(path.read_text()) | started))
    with opened(tmp_path) as evidence:
        found = shares.before_their_group(evidence)
        rows = [] if found is None else found.collect()
    assert {(row["partition"], row["offset"]) for row in rows} == {(0, offset) for offset in range(until)}


def test_a_partition_has_the_id_of_its_topic(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, [clean("calm", 1), clean("other", 2)])
    for folder, known in (("calm-0", "AQ"), ("calm-1", "AQ"), ("other-0", "Ag")):
        text = f"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA{known}\n"
        (tmp_path / "data" / folder / topic_ids.FILE).write_text(text)
    with opened(tmp_path) as evidence:
        assert topic_ids.topic_ids(evidence).collect() == []
        (tmp_path / "data" / "other-1" / topic_ids.FILE).write_text("topic_id: nothing")
        (row,) = topic_ids.topic_ids(evidence).collect()
    assert (row["anomaly"], row["kind"]) == ("V13", topic_ids.UNREADABLE)
    assert (row["topic"], row["partition"]) == ("other", 1)


@pytest.mark.parametrize(("isolation", "found"), [("read_committed", False), ("read_uncommitted", True)])
def test_a_share_group_that_reads_committed_records_begins_below_an_open_transaction(
    tmp_path: Path, spark: SparkSession, isolation: str, found: bool
) -> None:
    topic = clean("calm", 1, "transactional")
    share(topic)
    write(tmp_path, [topic])
    for path in (tmp_path / "run" / "clients").glob("c00001[45].json"):
        begun = {"started_ns": START_NS + NS, "offset_reset": "latest", "isolation": isolation}
        path.write_text(json.dumps(json.loads(path.read_text()) | begun))
    with opened(tmp_path) as evidence:
        early = shares.before_their_group(evidence)
        assert (early is not None and not early.isEmpty()) == found
