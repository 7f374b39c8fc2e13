"""The loop of an IO worker, over parts that note their calls, and its main."""

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbroker.io import worker
from kbroker.io.append.rows import FollowUp, Stop, WaitResult
from kbroker.io.append.wait_kernel import AT_ONCE
from kbroker.io.worker import MOVES_MS, RECONNECT_MS
from kbroker.ipc.layout import AppendEntry, Completion, Operation, ProcessLine, Ring
from kbroker.ipc.messages import ClosePartition, DeleteRecords, Follow, OpenPartition, Reply, SetLeaderEpoch
from kbroker.ipc.ring import ring_push, ring_take
from kbroker.protocol.errors import ErrorCode
from tests.io.append.plain_append import topic_config
from tests.io.worker_scene import LATER, NOW_MS, RING, SLOT, Scene


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    yield made
    made.sockets.close()


@pytest.mark.parametrize(
    ("words", "calls", "more"),
    [
        ({}, [], False),
        ({"STOP": Stop.ROLL}, [("logs.roll", SLOT), ("housekeeping.rolled", NOW_MS)], True),
        ({"STOP": Stop.FILES}, [("logs.open_files", SLOT)], True),
        ({"STOP": Stop.ROOM}, [("drain.make_room",)], True),
        ({"STOP": Stop.MARKER, "HELD": 1}, [("held.take",)], False),
        ({"FOLLOW_UP": FollowUp.FLUSH}, [("drain.touched_slots",), ("durability.flush", [SLOT])], False),
        ({"FOLLOW_UP": FollowUp.REPLICAS}, [("drain.touched_slots",), ("leading.appended", [SLOT])], False),
        (
            {"FOLLOW_UP": FollowUp.FLUSH | FollowUp.REPLICAS},
            [("drain.touched_slots",), ("durability.flush", [SLOT]), ("leading.appended", [SLOT])],
            False,
        ),
    ],
)
def test_each_event_for_which_the_drain_stops_is_handled(
    scene: Scene, words: dict[str, int], calls: list[tuple[Any, ...]], more: bool
) -> None:
    assert scene.drained(STOP_SLOT=SLOT, **words) == more
    assert scene.calls == [("drain.run",), *calls]


def test_the_closed_segment_of_a_rolled_log_is_synced_when_that_is_due(scene: Scene) -> None:
    scene.worker._due_ms = NOW_MS + 900
    scene.housekeeping.next_due_ms = NOW_MS + 50
    scene.drained(STOP_SLOT=SLOT, STOP=Stop.ROLL)
    assert scene.worker._due_ms == NOW_MS + 50


def test_a_drain_that_took_entries_is_followed_by_another(scene: Scene) -> None:
    assert scene.drained(taken=1)
    assert not scene.drained(taken=0)


def test_opened_files_are_counted_against_the_limit_only_if_they_are_open(scene: Scene) -> None:
    scene.logs.answers["open_files"] = True
    assert scene.drained(STOP=Stop.FILES, STOP_SLOT=SLOT)
    assert scene.names == ["drain.run", "logs.open_files", "handles.opened"]


def test_a_failed_write_is_reported_and_its_clients_are_woken(scene: Scene) -> None:
    scene.drain.answers["failures"] = [(SLOT, errno.EIO), (1, errno.ENOSPC)]
    assert not scene.drained(FAILED=2)
    assert scene.calls[1:] == [
        ("drain.failures",),
        ("failures.write_failed", SLOT, errno.EIO),
        ("failures.write_failed", 1, errno.ENOSPC),
        ("drain.wake",),
    ]


def test_a_reader_whose_ring_is_full_is_notified_until_it_has_room(scene: Scene) -> None:
    scene.worker._due_ms = LATER
    scene.drained(NOTIFY_AGAIN=1)
    assert scene.worker._due_ms == 0
    scene.drain.answers["notify"] = 1
    for _ in range(2):
        scene.calls.clear()
        scene.worker._serve_others()
        assert scene.calls[-2:] == [("drain.wake",), ("drain.notify", SLOT)]
        assert scene.worker._next_due_ms() == NOW_MS + 1
    scene.drain.answers["notify"] = 0
    scene.worker._serve_others()
    scene.calls.clear()
    scene.worker._serve_others()
    assert "drain.notify" not in scene.names
    assert scene.worker._next_due_ms() == NOW_MS + 1000


def test_held_entries_are_followed_by_all_other_work(scene: Scene) -> None:
    scene.worker._due_ms = LATER
    scene.drained(HELD=1)
    assert scene.worker._due_ms == 0


def test_other_work_is_done_in_its_order_and_the_clients_are_woken_once(scene: Scene) -> None:
    scene.logs.answers["take_opened"] = [Reply(1)]
    scene.worker._serve_others()
    assert scene.names == [
        "link.connect",
        "link.take",
        "logs.take_opened",
        "link.reply",
        "log_start_replies.run",
        "link.reply",
        "deletions.run",
        "link.reply",
        "held.answer_read",
        "durability.answer_late",
        "durability.expire",
        "housekeeping.run",
        "drain.wake",
    ]
    assert ("link.reply", [Reply(1)]) in scene.calls
    assert ("durability.expire", NOW_MS) in scene.calls
    assert ("housekeeping.run", NOW_MS) in scene.calls


def test_moves_are_reported_at_their_interval(scene: Scene) -> None:
    scene.moves.count = 1
    reported = []
    for now_ms in (NOW_MS, NOW_MS + MOVES_MS - 1, NOW_MS + MOVES_MS):
        scene.now_ms = now_ms
        scene.calls.clear()
        scene.worker._serve_others()
        reported.append("moves.report" in scene.names)
        assert scene.worker._next_due_ms() == NOW_MS + MOVES_MS * len([each for each in reported if each])
    assert reported == [True, False, True]


@pytest.mark.parametrize(
    ("part", "given", "due_ms"),
    [
        ("drain", {}, NOW_MS + 1000),
        ("housekeeping", {"next_due_ms": NOW_MS + 7}, NOW_MS + 7),
        ("link", {"connected": False}, NOW_MS + RECONNECT_MS),
        ("durability", {"unanswered": True}, NOW_MS + 1),
        ("held", {"unanswered": True}, NOW_MS + 1),
        ("drain", {"waiting": lambda: 1}, NOW_MS + 1),
    ],
)
def test_other_work_is_due_by_its_first_part(
    scene: Scene, part: str, given: dict[str, Any], due_ms: int
) -> None:
    vars(getattr(scene, part)).update(given)
    assert scene.worker._next_due_ms() == due_ms


def test_a_worker_waits_until_other_work_is_due(scene: Scene) -> None:
    scene.worker._due_ms = NOW_MS + 400
    scene.worker._turn()
    assert scene.names == ["drain.wait", "drain.run"]
    assert scene.waits() == [(NOW_MS + 400, NOW_MS + 400)]


def test_a_worker_with_replicas_waits_for_them_too_and_announces_its_sleep_first(scene: Scene) -> None:
    """A leader that writes while nobody has announced a sleep writes no event."""
    scene.worker._due_ms = NOW_MS + 400
    scene.replicas.active = True
    scene.replicas.answers = {"next_due_ms": NOW_MS + 20, "turn": False}
    announced: list[bool] = []
    scene.replicas.pending = lambda: announced.append(scene.announced)
    scene.worker._turn()
    assert scene.waits() == [(NOW_MS + 400, NOW_MS + 20)]
    assert announced == [True]


def test_records_of_a_leader_that_arrive_before_the_sleep_are_copied_without_a_wait(scene: Scene) -> None:
    scene.worker._due_ms = LATER
    scene.replicas.active = True
    scene.replicas.answers = {"turn": False, "pending": True}
    scene.worker._turn()
    assert scene.waits() == [(LATER, AT_ONCE)]
    assert not scene.announced


@pytest.mark.parametrize("appended", [False, True])
def test_replicas_get_a_turn_after_each_drain(scene: Scene, appended: bool) -> None:
    scene.worker._due_ms = LATER
    scene.replicas.active = True
    turns = iter([True, False])
    scene.replicas.turn = lambda now_ms: (scene.calls.append(("turn", now_ms)), next(turns))[1]
    scene.replicas.answers = {"pending": False, "next_due_ms": NOW_MS + 20}
    scene.drain.answers["run"] = int(appended)
    scene.worker._turn()
    scene.worker._turn()
    assert [call for call in scene.calls if call[0] == "turn"] == [("turn", NOW_MS)] * 2
    assert scene.waits() == [(LATER, AT_ONCE), (LATER, AT_ONCE if appended else NOW_MS + 20)]


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_append_does_no_other_work_before_it_is_due_and_an_interrupt_does(
    scene: Scene, interrupted: bool
) -> None:
    if interrupted:
        scene.worker.sleeper.interrupt()
    scene.worker._turn()
    assert ("housekeeping.run" in scene.names) == interrupted
    scene.calls.clear()
    scene.worker._turn()
    assert scene.names == ["drain.wait", "drain.run"]


def test_other_work_is_done_before_the_next_drain_and_gets_its_next_time(scene: Scene) -> None:
    scene.drain.answers["wait"] = WaitResult.OTHER
    scene.worker._turn()
    assert scene.names.index("link.take") < scene.names.index("drain.run")
    assert scene.worker._due_ms == NOW_MS + 1000


@pytest.mark.parametrize("unanswered", [False, True])
def test_the_end_of_a_sync_is_taken_and_full_rings_are_other_work(scene: Scene, unanswered: bool) -> None:
    scene.durability.unanswered = unanswered
    scene.worker._take_events(WaitResult.SYNCED)
    assert scene.names[0] == "durability.take_flushed"
    assert ("durability.answer_late" in scene.names) == unanswered


@pytest.mark.parametrize("active", [False, True])
def test_leaders_hear_of_the_end_of_a_sync_after_it_is_published(scene: Scene, active: bool) -> None:
    scene.replicas.active = active
    scene.worker._take_events(WaitResult.SYNCED)
    assert scene.names == ["durability.take_flushed", "replicas.synced"][: 1 + active]


def test_a_worker_polls_its_event_and_the_ends_of_syncs(scene: Scene) -> None:
    scene.durability.answers["fileno"] = scene.real_durability.fileno()
    poll = scene.worker._new_poll()
    assert scene.calls[-1] == ("drain.waits_for", poll.fileno(), scene.worker.sleeper.event_fd)
    assert poll.poll(0) == []
    os.eventfd_write(scene.worker.sleeper.event_fd, 1)
    assert [fd for fd, _ in poll.poll(5)] == [scene.worker.sleeper.event_fd]
    os.write(scene.real_durability._commit._results_write, b"x")
    assert [fd for fd, _ in poll.poll(5)] == [scene.real_durability.fileno()]
    poll.close()


def test_replies_that_wait_for_a_thread_or_the_disk_are_not_sent_with_the_others(scene: Scene) -> None:
    opened = OpenPartition(SLOT, 7, "t", 0, bytes(16), "/d", 1, topic_config())
    closed, deleted = ClosePartition(SLOT), DeleteRecords(SLOT, 5)
    scene.commands.answers["handle"] = Reply(4, 5)
    assert scene.worker._serve_messages([(2, opened), (3, closed), (4, deleted)]) == []
    assert scene.calls == [
        ("moves.reopened", SLOT, opened.log_dir),
        ("logs.open", opened, 2),
        ("deletions.add", 3, closed),
        ("commands.handle", 4, deleted),
        ("log_start_replies.hold", SLOT, Reply(4, 5)),
    ]


def test_the_role_of_a_log_that_was_opened_does_not_replace_a_later_one(scene: Scene) -> None:
    """Both messages may arrive together, and a log that is open already is opened later."""
    opened = OpenPartition(SLOT, 7, "t", 0, bytes(16), "/d", 1, topic_config())
    role = Follow(SLOT, 2, 1, 1, 0, "/d/t-0")
    scene.logs.answers["take_opened"] = [Reply(2)]
    scene.commands.answers["handle"] = Reply(3)
    assert scene.worker._serve_messages([(2, opened), (3, role)]) == [Reply(3)]
    assert scene.names == ["moves.reopened", "logs.open", "logs.take_opened", "link.reply", "commands.handle"]
    assert ("link.reply", [Reply(2)]) in scene.calls


def test_a_refused_deletion_of_records_and_any_other_call_are_answered_at_once(scene: Scene) -> None:
    refused = Reply(4, None, int(ErrorCode.OFFSET_OUT_OF_RANGE))
    scene.commands.answers["handle"] = refused
    assert scene.worker._serve_messages([(4, DeleteRecords(SLOT, 5))]) == [refused]
    scene.commands.answers["handle"] = Reply(6)
    assert scene.worker._serve_messages([(6, SetLeaderEpoch(SLOT, 1))]) == [Reply(6)]
    scene.commands.answers["handle"] = Reply(0)  # of a message that is no call
    assert scene.worker._serve_messages([(0, SetLeaderEpoch(SLOT, 1))]) == []


def test_no_reply_of_a_dead_control_is_kept(scene: Scene) -> None:
    scene.worker._control_died()
    assert scene.names == ["logs.forget_calls", "deletions.clear", "log_start_replies.clear"]


def test_entries_that_a_predecessor_left_are_refused_and_later_ones_are_the_workers_own(scene: Scene) -> None:
    entry = AppendEntry.row()
    entry[AppendEntry.OPERATION], entry[AppendEntry.SLOT], entry[AppendEntry.TOKEN] = (
        Operation.APPEND,
        SLOT,
        9,
    )
    ring = scene.shared.append_ring(0, 0)
    for _ in range(2):
        assert ring_push(ring, RING, np.array(entry, np.int64))
    scene.worker.drain = scene.real_drain
    scene.worker._refuse_old_entries()
    out = AppendEntry.table(RING)
    count = ring_take(scene.shared.completion_ring(0, 0), RING, out)
    assert [(int(row[0]), int(row[Completion.ERROR])) for row in out[:count]] == [
        (9, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ] * 2
    assert ctypes.c_int64.from_address(ring + 8 * Ring.RECOVERED).value == 2
    assert scene.shared.processes[scene.worker.context.process, ProcessLine.READY] == 5


@pytest.mark.parametrize("not_closed", [0, 2])
def test_a_stop_empties_the_rings_finishes_syncs_and_then_closes_the_logs(
    scene: Scene, not_closed: int
) -> None:
    taken = iter([1, 1, 0])
    scene.drain.run = lambda: (scene.calls.append(("drain.run",)), next(taken))[1]
    scene.logs.answers["close_all"] = not_closed
    if not_closed:
        with pytest.raises(SystemExit) as stopped:
            scene.worker._drain_and_close()
        assert stopped.value.code == 1
    else:
        scene.worker._drain_and_close()
    assert scene.names == [
        *["drain.run"] * 3,
        "moves.close",
        "held.close",
        "durability.close",
        "drain.wake",
        "cleaning.close",
        "logs.close_all",
    ]


def test_a_stop_interrupts_the_sleep(scene: Scene) -> None:
    scene.worker._stop()
    assert scene.worker.stopping
    assert scene.worker.sleeper.take_interrupted()
    assert os.eventfd_read(scene.worker.sleeper.event_fd) == 1


def test_threads_give_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for a busy thread, such as that of the checkpoint of all logs, after each
    drain."""
    found: list[float] = []

    class Stopped:
        def __init__(self, _: object) -> None: ...

        def run(self) -> None:
            found.append(-1)

    monkeypatch.setattr(sys, "setswitchinterval", found.append)
    monkeypatch.setattr(worker, "Worker", Stopped)
    context: Any = None
    worker.main(context)
    switch_s, ran = found
    assert ran == -1, "before the threads start"
    assert 0 < switch_s < sys.getswitchinterval() / 5
