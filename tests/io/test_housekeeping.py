"""What an IO worker does by the clock: nothing is forgotten, and no turn takes longer for a larger
number of logs."""

import itertools
import os
import time
from pathlib import Path

import pytest

from kbroker.io import expiry, housekeeping
from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.housekeeping import (
    DELETED_BYTES,
    RETENTION_SECONDS,
    ROLLED_MS,
    SEGMENTS,
    SEGMENTS_DELETED,
    SLICE,
)
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot
from tests.io.append.plain_append import NOW, topic_config
from tests.io.housekeeping_scene import Scene
from tests.log.batch_bytes import batch

INITIAL_DELAY_MS = 30_000  # log.initial.task.delay.ms
EXPIRATION_CHECK_MS = 600_000  # producer.id.expiration.check.interval.ms


def test_retention_looks_at_all_logs_a_slice_at_a_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SLICE + 3)
    scene.run(INITIAL_DELAY_MS)
    assert scene.looked_at == list(range(SLICE))
    assert scene.housekeeping.next_due_ms == 0
    scene.run(INITIAL_DELAY_MS + 1)
    assert scene.looked_at == list(range(SLICE + 3))
    assert scene.housekeeping.next_due_ms > INITIAL_DELAY_MS


def test_a_log_deleted_between_two_slices_is_passed_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SLICE + 3)
    scene.run(INITIAL_DELAY_MS)
    del scene.node.logs[SLICE]
    scene.run(INITIAL_DELAY_MS + 1)
    assert scene.looked_at[-3:] == [SLICE, SLICE + 1, SLICE + 2]


def test_flush_ms_syncs_a_log_with_unsynced_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is never set back: nothing was synced until the wall clock had caught up."""
    scene = Scene(tmp_path, 3, topic_config(flush_ms=1000))
    monkeypatch.setattr(housekeeping, "monotonic_ms", iter([5000, 5999, 6000]).__next__)
    scene.node.logs[1].partition.durability.flush()
    for now_ms, syncs in ((1000, 1), (2000, 1), (3000, 2)):
        scene.run(now_ms)
        assert scene.syncs == [("now", [0, 2])] * syncs


def test_idle_producers_are_forgotten_from_the_first_interval_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    logs = scene.node.logs.values()
    scene.housekeeping.configure({"producer.id.expiration.ms": "1000"})
    scene.run(INITIAL_DELAY_MS)
    assert scene.expired == []
    before = wall_clock_ms()
    before_expiry = [int(log.words[Slot.SEQUENCE]) for log in logs]
    scene.run(EXPIRATION_CHECK_MS)
    [expired] = scene.expired
    assert before - 1000 <= expired <= wall_clock_ms() - 1000
    assert scene.expiration_ms == 1000  # what loading a log goes by
    changed = [
        int(log.words[Slot.SEQUENCE]) - before for log, before in zip(logs, before_expiry, strict=True)
    ]
    assert changed == [2, 0]  # cached answers about the first one are outdated


def test_records_expire_by_the_wall_clock_a_slice_of_logs_at_a_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, expiry.SLICE + 2, topic_config(kbroker_record_ttl_ms=1000))
    scene.expiring.update(scene.node.logs)
    scene.run(1000)
    assert list(scene.starts) == list(range(expiry.SLICE))
    assert scene.housekeeping.next_due_ms == 0
    scene.run(1001)
    assert scene.starts == dict.fromkeys(scene.node.logs, 1)
    assert scene.housekeeping.next_due_ms > 1001


def test_reserved_blocks_are_checked_by_the_wall_clock(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    before = wall_clock_ms()
    scene.run(1000)
    [now] = scene.reservations_freed_at
    assert before <= now <= wall_clock_ms()


def test_without_flush_ms_only_rolled_segments_are_synced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    log = scene.node.logs[2]
    log.partition.roll(log.now_ms)
    scene.run(1000)
    assert scene.syncs == [("rolled", [2])]
    log.partition.durability.flush()
    scene.run(2000)
    assert scene.syncs == [("rolled", [2])]
    assert log.row[AppendRow.ROLLED] == 0


def test_a_rolled_segment_is_synced_soon(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    log = scene.node.logs[1]
    log.partition.roll(log.now_ms)
    scene.housekeeping.rolled(10)
    assert scene.housekeeping.next_due_ms == 10 + ROLLED_MS
    scene.run(10 + ROLLED_MS)
    assert scene.syncs == [("rolled", [1])]


def test_a_segment_that_flush_ms_syncs_is_not_synced_again_for_a_roll(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3, topic_config(flush_ms=1000))
    log = scene.node.logs[1]
    log.partition.roll(log.now_ms)
    scene.run(1000)
    assert scene.syncs == [("now", [0, 1, 2])]


def test_followers_are_synced_as_leaders_are(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3, topic_config(flush_ms=1000))
    for log in scene.node.logs.values():
        log.row[AppendRow.STATE] = AppendState.CLOSED
    rolled = scene.node.logs[1]
    rolled.partition.roll(rolled.now_ms)
    scene.housekeeping.rolled(10)
    scene.run(10 + ROLLED_MS)
    scene.run(1000)
    assert scene.syncs == [("rolled", [1]), ("now", [0, 1, 2])]


def test_a_log_that_was_closed_is_not_synced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    log = scene.node.logs[0]
    log.partition.roll(log.now_ms)
    log.partition.abandon()
    scene.run(1000)
    assert scene.syncs == []


def test_retention_waits_for_its_initial_delay_from_the_start_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, begins_ms=1_000_000)
    scene.run(1_000_000 + INITIAL_DELAY_MS - 1)
    assert scene.looked_at == []
    scene.run(1_000_000 + INITIAL_DELAY_MS)
    assert scene.looked_at == [0]


def test_retention_counts_what_it_deletes_and_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1, topic_config(retention_ms=1000))
    log = scene.node.logs[0]
    old = log.partition.size
    log.partition.roll(log.now_ms)
    log.append(batch(0, [b"w" * 100], [wall_clock_ms() + 1_000_000]))
    log.partition.epochs.assign(0, 0)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("an append would wait for this"))
    swept: list[int] = []
    monkeypatch.setattr(scene, "sweep_deleted", swept.append)
    scene.run(INITIAL_DELAY_MS)
    assert log.partition.base_offsets == [1]
    assert [int(scene.metrics.words[word]) for word in (SEGMENTS_DELETED, DELETED_BYTES)] == [1, old]
    assert swept == [60_000]


def test_retention_deletes_few_segments_in_a_turn_and_continues(tmp_path: Path) -> None:
    """A client may make tens of thousands of segments, each of one record: in one turn all their
    files took seconds, in which the worker served no one."""
    scene = Scene(tmp_path, 2, topic_config(retention_ms=1000))
    for log in scene.node.logs.values():
        for number in range(SEGMENTS + 5):
            log.partition.roll(log.now_ms)
            log.append(batch(0, [b"w"], [log.now_ms + number]))
    before = [len(log.partition.base_offsets) for log in scene.node.logs.values()]
    scene.housekeeping.retain_soon(0)
    scene.housekeeping.retain_soon(1)
    seen = []
    for turn in range(10):
        scene.housekeeping.run(turn)
        gone = zip(before, scene.node.logs.values(), strict=True)
        seen.append([count - len(log.partition.base_offsets) for count, log in gone])
        if scene.housekeeping.next_due_ms > turn + 1:
            break
    assert seen[:2] == [[SEGMENTS, 0], [SEGMENTS, SEGMENTS]]
    assert [len(log.partition.base_offsets) for log in scene.node.logs.values()] == [1, 1]
    assert scene.metrics.words[SEGMENTS_DELETED] == sum(before)


def test_a_log_whose_space_is_needed_deletes_what_lies_below_its_log_start_now(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    for log in scene.node.logs.values():
        log.partition.roll(log.now_ms)
        log.partition.delete_records(1)
    scene.housekeeping.retain_soon(1)
    assert scene.housekeeping.next_due_ms == 0
    scene.run(0)
    assert [log.partition.base_offsets for log in scene.node.logs.values()] == [[0, 1], [1]]
    assert scene.metrics.words[SEGMENTS_DELETED] == 1
    assert scene.housekeeping.next_due_ms > 0


def test_each_second_due_files_are_removed_and_full_disks_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1)
    monkeypatch.setattr(housekeeping, "wall_clock_ms", lambda: NOW)
    calls: list[object] = []
    monkeypatch.setattr(scene.deletions, "remove_due", calls.append)
    for name in ("check_dirs", "heal", "write", "take_checkpoint", "write_checkpoints", "measure"):
        monkeypatch.setattr(scene, name, lambda name=name: calls.append(name))
    scene.run(999)
    assert calls == []
    scene.run(1000)
    assert calls == ["check_dirs", NOW, "heal", "write", "take_checkpoint", "write_checkpoints", "measure"]


def test_the_checks_of_a_second_have_a_turn_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, 1)
    calls: list[str] = []
    for name in ("check_dirs", "write", "measure"):
        monkeypatch.setattr(scene, name, lambda name=name: calls.append(name))
    seen = []
    while scene.housekeeping.next_due_ms <= 1000:
        scene.housekeeping.run(1000)
        seen.append(list(calls))
    assert [seen[0], seen[2], seen[3]] == [
        ["check_dirs"],
        ["check_dirs", "write"],
        ["check_dirs", "write", "measure"],
    ]


@pytest.mark.parametrize(("turn_ms", "checkpoint_ms"), [(1, 0), (200, 60_000), (300, 60_000), (300, 0)])
def test_no_task_waits_for_the_end_of_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn_ms: int, checkpoint_ms: int
) -> None:
    """With a turn of 200 ms the first checks were due again before the last ones had run. The
    checkpoint, with an interval of 0, kept everything after it from running."""
    scene = Scene(tmp_path, 1, topic_config(flush_ms=1000))
    begin = scene.housekeeping._tasks[1]
    begin.due_ms = begin.interval_ms = checkpoint_ms
    calls: list[str] = []
    names = ("check_dirs", "write", "measure")
    for name in names:
        monkeypatch.setattr(scene, name, lambda name=name: calls.append(name))
    scene.housekeeping.retain_soon(0)
    for turn in range(1 + max(20, 3000 // turn_ms)):
        scene.housekeeping.run(1000 + turn * turn_ms)
    assert {*names} == {*calls}
    assert ("now", [0]) in scene.syncs
    assert not scene.housekeeping._to_retain


def test_each_turn_collects_a_slice_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1)
    left = [2]

    def collect() -> None:
        left[0] -= 1
        scene.collecting_checkpoint = left[0] > 0

    monkeypatch.setattr(scene, "collect_checkpoint", collect, raising=False)
    scene.collecting_checkpoint = True
    assert scene.housekeeping.next_due_ms == 0
    scene.run(0)
    assert left == [1]
    assert scene.housekeeping.next_due_ms == 0
    scene.run(0)
    assert left == [0]
    assert scene.housekeeping.next_due_ms > 0
    scene.run(0)
    assert left == [0]


def test_the_turn_that_begins_a_checkpoint_collects_no_second_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1)
    collected: list[int] = []
    monkeypatch.setattr(scene, "collect_checkpoint", lambda: collected.append(1), raising=False)
    begin = scene.housekeeping._tasks[1]
    monkeypatch.setattr(begin, "run", lambda: setattr(scene, "collecting_checkpoint", True))
    begin.due_ms = 100
    scene.run(100)
    assert scene.collecting_checkpoint
    assert collected == []
    scene.run(101)
    assert collected == [1]


def test_a_log_is_due_for_a_flush_when_flush_ms_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 2, topic_config(flush_ms=1000))
    monkeypatch.setattr(housekeeping, "monotonic_ms", lambda: NOW)
    for slot, since_ms in enumerate((1000, 999)):
        scene.node.rows[slot, AppendRow.LAST_FLUSH_MS] = NOW - since_ms
    scene.run(1000)
    assert scene.syncs == [("now", [0])]


def test_a_second_roll_does_not_delay_the_sync_of_the_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.housekeeping.rolled(10)
    scene.housekeeping.rolled(40)
    assert scene.housekeeping.next_due_ms == 10 + ROLLED_MS


def test_a_roll_after_flush_ms_has_synced_its_log_is_synced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, topic_config(flush_ms=1000))
    scene.run(1000)
    log = scene.node.logs[0]
    log.partition.roll(log.now_ms)
    scene.housekeeping.rolled(1000)
    scene.run(1000 + ROLLED_MS)
    assert scene.syncs == [("now", [0]), ("rolled", [0])]


def test_each_retention_run_measures_its_own_time_without_the_turns_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, SLICE + 1)
    ticks = itertools.count(step=10)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(ticks))
    measured: list[tuple[object, int]] = []
    monkeypatch.setattr(type(scene.metrics), "observe", lambda _, *what: measured.append(what))
    for turn in (0, 1, 300_000, 300_001):  # log.retention.check.interval.ms
        scene.run(INITIAL_DELAY_MS + turn)
        next(ticks)
    assert measured == [(RETENTION_SECONDS, 20)] * 2


def test_a_task_that_ran_late_is_due_an_interval_after_that(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.run(10_500)
    assert scene.housekeeping.next_due_ms == 11_500
