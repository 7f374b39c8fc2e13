"""acks=all of a durable topic is answered after the sync, once, and one sync serves all that
waited."""

import errno
import os
import time
from pathlib import Path

import pytest

from kbroker.io.append.drain import HeldAppend
from kbroker.io.append.rows import AppendRow, Environment, SyncRow, SyncState
from kbroker.io.durability import DELAYED, EXPIRED, FLUSH_ERRORS, WATCHED
from kbroker.io.group_commit import RECORD
from kbroker.ipc.layout import Completion, Counter, ProcessLine, Slot, SlotFlag
from kbroker.protocol.errors import ErrorCode
from tests.io.append.drain_case import batch
from tests.io.durability_scene import FakeLogs, Scene

TIMED_OUT = 7
NOT_LEADER = 6


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_answer_comes_after_the_sync_and_not_before(scene: Scene) -> None:
    token = scene.append()
    assert scene.logs.started.wait(60)
    scene.durability.take_flushed()
    assert scene.case.outcomes() == []
    scene.finish_sync()
    assert scene.case.outcomes() == [(token, 0, 0)]
    assert scene.durability.delayed == 0


def test_appends_during_a_sync_share_the_next_one(scene: Scene) -> None:
    first = scene.append()
    assert scene.logs.started.wait(60)
    others = [scene.append() for _ in range(5)]
    scene.finish_sync()
    assert scene.case.outcomes() == [(first, 0, 0)]
    scene.durability.wait()
    scene.durability.take_flushed()
    assert scene.case.outcomes() == [(token, 0, n + 1) for n, token in enumerate(others)]
    assert scene.logs.synced == [1, 6]


def test_timeout_answers_once_and_the_sync_does_not_answer_again(scene: Scene) -> None:
    token = scene.append()
    scene.durability.expire(time.monotonic_ns() // 1_000_000 + 30_001)
    assert scene.case.outcomes() == [(token, TIMED_OUT, -1)]
    scene.finish_sync()
    assert scene.case.outcomes() == []


def test_closed_slot_answers_not_leader(scene: Scene) -> None:
    token = scene.append()
    scene.durability.forget(scene.case.slot)
    assert scene.case.outcomes() == [(token, NOT_LEADER, -1)]
    scene.finish_sync()
    assert scene.case.outcomes() == []


def test_appends_that_wait_on_a_failed_log_dir_fail_at_once(scene: Scene) -> None:
    token = scene.append()
    for listener in scene.logs.offline_listeners:
        listener(scene.case.slot)
    assert scene.case.outcomes() == [(token, ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    scene.finish_sync()
    assert scene.case.outcomes() == []


def test_result_of_an_older_incarnation_is_dropped(scene: Scene) -> None:
    scene.append()
    assert scene.logs.started.wait(60)
    scene.case.words[Slot.GENERATION] += 1
    scene.finish_sync()
    assert scene.case.words[Slot.DURABLE] == 0
    assert scene.case.outcomes() == []


def test_append_that_needs_no_flush_is_answered_at_once(scene: Scene) -> None:
    scene.case.words[Slot.FLAGS] = 0
    held = HeldAppend(
        client=0, token=5, slot=scene.case.slot, base_offset=3, last_offset=3, append_time_ms=-1, acks=-1,
        timeout_ms=1000,
    )  # fmt: skip
    scene.durability.hold(held)
    assert scene.case.outcomes() == [(5, 0, 3)]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EIO])
def test_a_sync_of_a_log_that_has_moved_is_repeated_whatever_its_result(
    scene: Scene, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is gone with the move, which is no error at all; one of the disk is of the log dir
    that was left."""
    token = scene.append()
    assert scene.logs.started.wait(60)
    FakeLogs.gone, FakeLogs.number = "folder", number
    scene.logs.move()
    scene.finish_sync()
    assert scene.logs.failed == ([] if number == errno.ENOENT else [("folder", errno.EIO)])
    assert bool(caplog.records) == (number != errno.ENOENT)
    assert scene.case.outcomes() == []
    scene.durability.wait()
    scene.durability.take_flushed()
    assert scene.case.outcomes() == [(token, 0, 0)]


@pytest.mark.parametrize("number", [0, errno.EIO])
def test_a_plain_sync_that_a_move_overtakes_is_not_the_new_log_dirs(scene: Scene, number: int) -> None:
    """The kernel begins and ends these; what its end says is of the folder that was left."""
    token = scene.append()
    scene.finish_sync()
    assert scene.case.outcomes() == [(token, 0, 0)]
    sync = scene.case.drain.syncs[scene.case.slot]
    sync[SyncRow.STATE], sync[SyncRow.NEXT_OFFSET], sync[SyncRow.FD] = SyncState.PLAIN, 99, os.dup(0)
    scene.logs.move()
    os.write(scene.durability._commit._results_write, RECORD.pack(-1 - scene.case.slot, number, 1000))
    scene.durability.take_flushed()
    assert scene.logs.failed == ([("folder", number)] if number else [])
    assert scene.case.words[Slot.DURABLE] == 1
    scene.finish_sync()
    assert scene.logs.synced == [1, 1]


def test_a_sync_of_records_that_were_truncated_meanwhile_answers_no_append_and_is_repeated(
    scene: Scene,
) -> None:
    token = scene.append()
    assert scene.logs.started.wait(60)
    scene.case.row[AppendRow.CUTS] += 1
    scene.finish_sync()
    assert (scene.case.outcomes(), scene.synced, int(scene.case.words[Slot.DURABLE])) == ([], [], 0)
    scene.finish_sync()
    assert scene.case.outcomes() == [(token, 0, 0)]
    assert scene.synced == [scene.case.slot]


def test_a_sync_that_fails_makes_nothing_durable_and_is_reported_with_its_folder(scene: Scene) -> None:
    """After a failed sync the pages may be lost, though the next one succeeds."""
    FakeLogs.gone, FakeLogs.number = "folder", errno.EIO
    scene.append()
    scene.finish_sync()
    assert scene.logs.failed == [("folder", errno.EIO)]
    assert (scene.case.outcomes(), scene.synced, int(scene.case.words[Slot.DURABLE])) == ([], [], 0)


@pytest.mark.parametrize(("records", "syncs"), [(2, False), (3, True), (4, True)])
def test_flush_messages_records_begin_a_sync(scene: Scene, records: int, syncs: bool) -> None:
    scene.case.words[Slot.FLAGS] = 0
    scene.case.row[AppendRow.FLUSH_RECORDS] = 3
    scene.case.row[AppendRow.UNFLUSHED_RECORDS] = records
    scene.durability.flush([scene.case.slot])
    assert (scene.case.drain.syncs[scene.case.slot, SyncRow.STATE] != SyncState.IDLE) == syncs
    scene.logs.gate.set()
    scene.durability.close()
    assert scene.logs.synced == [0] * syncs


@pytest.mark.parametrize(("acks", "waits"), [(-1, True), (1, False), (0, False)])
def test_only_an_append_with_acks_all_waits_for_replicas(scene: Scene, acks: int, waits: bool) -> None:
    scene.case.words[Slot.FLAGS] = SlotFlag.REPLICATED
    held = HeldAppend(
        client=0, token=5, slot=scene.case.slot, base_offset=3, last_offset=3, append_time_ms=-1, acks=acks,
        timeout_ms=1000,
    )  # fmt: skip
    scene.durability.hold(held)
    assert scene.case.outcomes() == ([] if waits else [(5, 0, 3)])
    scene.case.words[Slot.HIGH_WATERMARK] = 3
    scene.durability.advanced(scene.case.slot)
    assert scene.case.outcomes() == []
    scene.case.words[Slot.HIGH_WATERMARK] = 4
    scene.durability.advanced(scene.case.slot)
    assert scene.case.outcomes() == ([(5, 0, 3)] if waits else [])


def test_a_flush_requested_during_another_one_follows_it(scene: Scene) -> None:
    scene.case.words[Slot.FLAGS] = 0  # flush.ms alone asks for it
    for number in range(2):
        scene.case.push(batch(), acks=1)
        scene.case.drain.run()
        scene.durability.flush_now([scene.case.slot])
        assert scene.logs.started.wait(60), number
    scene.finish_sync()
    scene.durability.wait()
    scene.durability.take_flushed()
    assert scene.logs.synced == [1, 2]


def held_append(scene: Scene, acks: int = -1) -> HeldAppend:
    return HeldAppend(
        client=0, token=5, slot=scene.case.slot, base_offset=3, last_offset=3, append_time_ms=-1, acks=acks,
        timeout_ms=1000,
    )  # fmt: skip


def test_a_sleeping_client_is_woken_by_the_answer_after_a_sync(scene: Scene) -> None:
    scene.append()
    scene.case.shared.processes[0][ProcessLine.SLEEPING] = 1
    scene.finish_sync()
    assert os.eventfd_read(scene.case.shared.event_fds[0]) == 1
    assert scene.case.drain.counters[scene.case.slot, Counter.FLUSHES] == 1


def test_a_reader_is_notified_after_a_sync_and_later_if_its_ring_is_full(scene: Scene) -> None:
    for full in (False, True):
        if full:
            scene.fill_ring(1)
        scene.append()
        scene.case.words[Slot.WAITERS] = 1 << 1
        scene.finish_sync()
        assert scene.notify_again == [scene.case.slot] * full
        if not full:
            assert [answer[Completion.SLOT] for answer in scene.case.answers(client=1)] == [scene.case.slot]


def test_a_reader_that_the_kernel_could_not_notify_is_notified_later(scene: Scene) -> None:
    scene.case.drain.syncs[scene.case.slot, SyncRow.STATE] = SyncState.IDLE
    scene.durability._ended(-1 - scene.case.slot, SyncRow.NOT_NOTIFIED, 0)
    assert scene.notify_again == [scene.case.slot]


def test_a_sync_that_no_thread_could_take_is_made_whole(scene: Scene) -> None:
    assert scene.durability._ended(-1 - scene.case.slot, SyncRow.NOT_STARTED, 0) == scene.case.slot


def test_a_plain_sync_that_fails_is_reported_and_counted(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    sync = scene.case.drain.syncs[scene.case.slot]
    sync[SyncRow.STATE], sync[SyncRow.NEXT_OFFSET], sync[SyncRow.FD] = SyncState.PLAIN, 9, os.dup(0)
    sync[SyncRow.GENERATION] = scene.case.words[Slot.GENERATION]
    scene.report(errno.EIO)
    assert scene.logs.failed == [("folder", errno.EIO)]
    assert scene.case.drain.metrics.words[FLUSH_ERRORS] == 1
    assert (scene.case.words[Slot.DURABLE], sync[SyncRow.STATE]) == (0, SyncState.IDLE)


def test_an_answer_without_room_in_its_ring_is_given_later(scene: Scene) -> None:
    scene.case.words[Slot.FLAGS] = 0
    scene.fill_ring(0)
    assert not scene.durability.unanswered
    scene.durability.hold(held_append(scene))
    assert scene.durability.unanswered
    scene.durability.answer_late()
    assert scene.durability.unanswered
    scene.case.answers()
    scene.durability.answer_late()
    assert scene.case.outcomes() == [(5, 0, 3)]
    assert not scene.durability.unanswered


def test_a_refused_append_has_a_storage_error(scene: Scene) -> None:
    scene.durability.refuse(held_append(scene))
    assert scene.case.outcomes() == [(5, ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_an_append_that_flush_messages_holds_waits_for_the_disk(scene: Scene) -> None:
    scene.case.words[Slot.FLAGS] = 0
    scene.case.row[AppendRow.FLUSH_RECORDS] = 3
    scene.durability.hold(held_append(scene))
    assert scene.case.outcomes() == []


@pytest.mark.parametrize(("durable", "waits"), [(3, True), (4, False)])
def test_an_append_that_a_sync_has_covered_meanwhile_is_answered_without_another_one(
    scene: Scene, durable: int, waits: bool
) -> None:
    """Python may hold an append after the sync of its records has ended: none may follow."""
    scene.case.words[Slot.DURABLE] = scene.case.words[Slot.HIGH_WATERMARK] = durable
    scene.durability.hold(held_append(scene))
    assert scene.case.outcomes() == ([] if waits else [(5, 0, 3)])
    assert scene.durability.delayed == waits


def test_a_delayed_produce_expires_at_its_time_and_not_before(scene: Scene) -> None:
    scene.durability.hold(held_append(scene))
    expiry_ms = scene.case.drain.env[Environment.DELAYED_DUE_MS]
    scene.durability.expire(expiry_ms - 1)
    assert scene.case.outcomes() == []
    scene.durability.expire(expiry_ms)
    assert scene.case.outcomes() == [(5, TIMED_OUT, -1)]


def test_delayed_and_expired_produces_are_counted(scene: Scene) -> None:
    words = scene.case.drain.metrics.words
    for _ in range(2):
        scene.durability.hold(held_append(scene))
    scene.durability.measure()
    assert [words[DELAYED], words[WATCHED], words[EXPIRED]] == [2, 2, 0]
    scene.durability.expire(scene.case.drain.env[Environment.DELAYED_DUE_MS] - 1)
    assert words[EXPIRED] == 0
    scene.durability.expire(time.monotonic_ns() // 1_000_000 + 1001)
    assert words[EXPIRED] == 2


def test_only_a_sync_for_a_roll_leaves_the_active_segment_out(scene: Scene) -> None:
    scene.logs.gate.set()
    for flush in (scene.durability.flush_rolled, scene.durability.flush_now, scene.durability.flush):
        flush([scene.case.slot])
        scene.finish_sync()
    assert scene.logs.rolled_only == [True, False, False]
