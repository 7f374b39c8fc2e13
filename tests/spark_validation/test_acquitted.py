"""Histories that look like those of a broker that failed its clients, and that a correct one has:
slow members, members that leave, rows that are lost."""

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import SparkSession

from loadtest.history import AssignmentEvent, ShareAck
from spark_validation.checks import delivery, group_coverage, membership, ownership, shares
from spark_validation.evidence import Evidence
from spark_validation.opening import open_evidence
from tests.spark_validation.owner_mutations import assign_what_is_not_there, hand_over, refuse_what_was_held
from tests.spark_validation.refusal_mutations import INVALID_RECORD_STATE
from tests.spark_validation.share_mutations import RELEASED, expire, share, too_often
from tests.spark_validation.world import MS, START_NS, Topic, clean
from tests.spark_validation.world_files import write

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


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


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refuse_slow_members(topic: Topic) -> None:
    """Both look at the record long after its lock began: that of the first has expired, and that of
    the second expires while it looks at it."""
    share(topic)
    first, second = (r for r in topic.rows["shares"] if (r["partition"], r["offset"]) == (0, RELEASED))
    began = first["acquired_ns"]
    for row, after_ms in ((first, 59_000), (second, 60_000)):
        times = {"acquired_ns": after_ms, "asked_ns": after_ms + 500, "answered_ns": after_ms + 510}
        row.update({name: began + ms * MS for name, ms in times.items()})
        row |= {"ack": int(ShareAck.ACCEPT), "error": INVALID_RECORD_STATE}


def test_a_lock_may_be_older_than_the_look_at_the_delivery_before(
    tmp_path: Path, spark: SparkSession
) -> None:
    topic = clean("calm", 1)
    refuse_slow_members(topic)
    write(tmp_path, [topic])
    with opened(tmp_path) as evidence:
        assert shares.stale(evidence).collect() == []


@pytest.mark.parametrize(("after_ms", "proven"), [(-20_000, True), (-5_000, False), (5, False), (30, True)])
def test_a_refusal_while_a_finished_member_leaves_is_counted(
    tmp_path: Path, spark: SparkSession, after_ms: int, proven: bool
) -> None:
    topic = clean("calm", 1)
    refuse_what_was_held(topic)
    rows = [r for r in topic.rows["shares"] if (r["partition"], r["offset"]) == (0, RELEASED)]
    first, second, _ = sorted(rows, key=lambda row: row["delivery"])
    second["acquired_ns"] = first["acquired_ns"] + 1
    second["answered_ns"] = second["acquired_ns"] + 12 * MS
    write(tmp_path, [topic])
    sharer = tmp_path / "run" / "clients" / "c000014.json"
    change(sharer, ended_ns=first["acquired_ns"] + after_ms * MS)
    with opened(tmp_path) as evidence:
        found = [row for row in shares.stale(evidence).collect() if row["kind"] == shares.REFUSED]
    assert [row["convicts"] for row in found] == [proven]


@pytest.mark.parametrize(("settings", "found"), [({}, 1), ({"consume_rate": 5.0}, 0)])
def test_members_that_are_slow_on_purpose_may_be_given_up(
    tmp_path: Path, spark: SparkSession, settings: dict[str, float], found: int
) -> None:
    topic = clean("calm", 1)
    hand_over(True)(topic)
    write(tmp_path, [topic])
    change(tmp_path / "run" / "run.json", settings=settings)
    with opened(tmp_path) as evidence:
        assert ownership.owners(evidence).count() == found


def test_a_partition_is_not_given_back_by_a_row_of_a_later_assignment(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The reader gives its partition back and is assigned it again, and both rows are lost."""
    topic = clean("calm", 1)
    hand_over(False)(topic)
    rows = topic.rows["assignments"]
    lost = [
        row
        for row in rows
        if row["consumer"] == topic.reader
        and row["partition"] == 0
        and (row["event"] == AssignmentEvent.REVOKED or row["assignment"] == 1)
    ]
    assert len(lost) == 2
    (again,) = (row for row in lost if row["event"] == AssignmentEvent.ASSIGNED)
    end = {"event": int(AssignmentEvent.REVOKED), "at_ns": again["at_ns"] + 10_000 * MS}
    topic.rows["assignments"] = [*(row for row in rows if row not in lost), again | end]
    write(tmp_path, [topic])
    with opened(tmp_path) as evidence:
        assert ownership.owners(evidence).collect() == []


@pytest.mark.parametrize(("source", "proven"), [("segments", True), ("connector", False)])
def test_a_partition_may_have_been_added_where_no_folder_denies_it(
    tmp_path: Path, spark: SparkSession, source: str, proven: bool
) -> None:
    topic = clean("calm", 1)
    assign_what_is_not_there(topic)
    write(tmp_path, [topic])
    with opened(tmp_path) as evidence:
        (row,) = membership.unclaimed(replace(evidence, source=source)).collect()
    assert (row["kind"], row["convicts"]) == (membership.NO_PARTITION, proven)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([], [True]),
        ([{"at_ns": START_NS, "step_ns": 5_000_000_000}], []),
        ([{"at_ns": START_NS, "step_ns": 2}], [True]),
    ],
)
def test_a_clock_that_was_set_may_show_a_record_before_it_was_sent(
    tmp_path: Path, spark: SparkSession, steps: list[dict[str, int]], found: list[bool]
) -> None:
    topic = clean("calm", 1)
    row = topic.reads_of(topic.reader, 0)[9]
    row["seen_ns"] = row["intended_ns"] - 1000 * MS
    write(tmp_path, [topic])
    change(tmp_path / "run" / "run.json", clock_steps=steps)
    with opened(tmp_path) as evidence:
        assert [each["convicts"] for each in delivery.impossible_reads(evidence).collect()] == found


@pytest.mark.parametrize(
    "name", ["calm-0.4f5fbb1c-delete", "calm-1.4f5fbb1c-future", "calm-7.4f5fbb1c-stray"]
)
def test_a_folder_that_is_removed_or_moved_is_no_log(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """It holds records of a topic that had the same name, of an earlier run."""
    topic = clean("calm", 1)
    write(tmp_path, [topic])
    shutil.copytree(tmp_path / "data" / "calm-1", tmp_path / "data" / name)
    with opened(tmp_path) as evidence:
        assert evidence.log.count() == 120


@pytest.mark.parametrize(
    ("mutate", "settings", "found"),
    [
        (expire(16_000), {}, {shares.HELD}),
        (expire(16_000), {"share_lock_ms": 15_000}, set()),
        (too_often, {}, {"delivered more often than its limit"}),
        (too_often, {"share_delivery_limit": 6}, set()),
    ],
)
def test_locks_and_limits_of_share_groups_are_those_of_the_run(
    tmp_path: Path,
    spark: SparkSession,
    mutate: Callable[[Topic], None],
    settings: dict[str, int],
    found: set[str],
) -> None:
    topic = clean("calm", 1)
    mutate(topic)
    write(tmp_path, [topic])
    change(tmp_path / "run" / "run.json", settings=settings)
    with opened(tmp_path) as evidence:
        assert {row["kind"] for row in shares.repeated(evidence).collect()} == found


def test_a_group_of_both_isolation_levels_need_not_be_given_what_was_aborted(
    tmp_path: Path, spark: SparkSession
) -> None:
    topic = clean("calm", 1, "transactional")
    other = topic.reader + 6
    topic.members[other] = topic.group, topic.name
    write(tmp_path, [topic])
    change(tmp_path / "run" / "clients" / f"c{other:06d}.json", isolation="read_uncommitted")
    with opened(tmp_path) as evidence:
        assert group_coverage.undelivered(evidence).collect() == []
