"""The high watermark of a led partition: an offset counts as replicated when every in-sync replica
has it."""

import errno
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.io.append.rows import AppendRow
from kbroker.io.replication import leading as module
from kbroker.io.replication.leading import Leading
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.messages import Lead

OWN, FIRST, SECOND = 0, 1, 2
EPOCH = 5


class Scene:
    """One led partition in slot 0, followers in slots 1 and 2, and what its worker does about
    it."""

    def __init__(self) -> None:
        self.slots = Slot.table(4)
        self.rows = np.zeros((4, 64), np.int64)
        self.notified: list[int] = []
        self.answered: list[int] = []
        self.folder = "t-0"
        self.leads = True
        shared: Any = SimpleNamespace(slots=self.slots, worker_process=lambda worker: worker)
        drain: Any = SimpleNamespace(rows=self.rows, notify=self.notified.append)
        logs: Any = SimpleNamespace(require=lambda slot: self, get=lambda slot: self)
        self.leading = Leading(shared, drain, logs, self.answered.append)
        for slot in (OWN, FIRST, SECOND):
            self.slots[slot, Slot.LEADER_EPOCH] = EPOCH

    @property
    def role(self) -> "Scene":
        return self

    def lead(self, epoch: int) -> None:
        self.slots[OWN, Slot.LEADER_EPOCH] = epoch

    @property
    def log_end(self) -> int:
        return int(self.slots[OWN, Slot.LOG_END])

    @property
    def high_watermark(self) -> int:
        return int(self.slots[OWN, Slot.HIGH_WATERMARK])

    def publish_high_watermark(self, mark: int) -> None:
        self.slots[OWN, Slot.HIGH_WATERMARK] = mark

    def ends(self, *ends: int, word: int = Slot.LOG_END) -> None:
        self.slots[: len(ends), word] = ends

    def begin(self, in_sync: tuple[int, ...] = (FIRST, SECOND), minimum: int = 1) -> bool:
        others = tuple((slot, slot) for slot in (FIRST, SECOND))
        return self.leading.lead(Lead(OWN, EPOCH, in_sync, others, minimum))


@pytest.fixture(autouse=True)
def no_wake_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wake_process", lambda shared, process: None)


@pytest.mark.parametrize("ends", [(10, 7, 9), (10, 9, 7), (7, 10, 9)])
def test_the_high_watermark_is_the_least_end_of_the_in_sync_replicas(ends: tuple[int, ...]) -> None:
    scene = Scene()
    scene.begin()
    scene.ends(*ends)
    scene.leading.appended([OWN])
    assert scene.leading.can_advance()
    assert scene.leading.advance()
    assert scene.high_watermark == 7
    assert scene.answered == [OWN]


def test_the_high_watermark_follows_the_replicas_until_it_is_at_the_end() -> None:
    scene = Scene()
    scene.begin()
    scene.ends(10, 7, 9)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    scene.ends(10, 10, 10)
    assert scene.leading.advance(), "without another append"
    assert (scene.high_watermark, scene.answered) == (10, [OWN, OWN])


def test_a_high_watermark_whose_segment_cannot_be_read_is_an_error_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not end the IO worker, which has logs in other log dirs."""
    scene, failed = Scene(), list[tuple[int, OSError]]()
    scene.begin()
    error = OSError(errno.EIO, os.strerror(errno.EIO))

    def refuse(_: int) -> None:
        raise error

    failures = SimpleNamespace(log_failed=lambda *each: failed.append(each))
    vars(scene.leading._logs)["failures"] = failures
    monkeypatch.setattr(scene, "publish_high_watermark", refuse)
    scene.ends(10, 7, 9)
    scene.leading.appended([OWN])
    assert not scene.leading.advance()
    assert failed == [(OWN, error)]


def test_a_leadership_that_found_no_room_on_disk_begins_at_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, tried = Scene(), list[int]()

    def full_once(epoch: int) -> None:
        tried.append(epoch)
        if len(tried) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(scene, "lead", full_once)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        scene.begin()
    assert len(scene.leading) == 0
    assert not scene.leading.advance()
    scene.begin()
    assert tried == [EPOCH, EPOCH]
    scene.ends(10, 10, 10)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    assert scene.high_watermark == 10


def test_a_partition_that_is_forgotten_refuses_no_appends_for_too_few_replicas() -> None:
    scene = Scene()
    scene.begin(in_sync=(), minimum=2)
    assert scene.rows[OWN, AppendRow.TOO_FEW]
    scene.leading.forget(OWN)
    assert not scene.rows[OWN, AppendRow.TOO_FEW]


def test_waiting_readers_are_notified_of_a_new_leadership_and_when_the_high_watermark_moves() -> None:
    scene = Scene()
    for _ in range(2):
        scene.begin()
    assert scene.notified == [OWN]
    scene.ends(10, 10, 0)
    scene.leading.appended([OWN])
    scene.leading.advance()
    assert scene.notified == [OWN]
    scene.ends(10, 10, 10)
    scene.leading.advance()
    assert scene.notified == [OWN, OWN]


def test_workers_that_copy_are_woken_by_a_role_and_by_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr(module, "wake_process", lambda _, process: woken.append(process))
    scene = Scene()
    scene.begin(in_sync=())
    assert sorted(woken) == [FIRST, SECOND]
    woken.clear()
    scene.leading.appended([OWN, OWN, 3])
    assert sorted(woken) == [FIRST, SECOND]


def test_no_record_is_acknowledged_before_any_follower_has_it() -> None:
    """A frozen follower holds acks=all."""
    scene = Scene()
    scene.begin()
    scene.ends(10, 0, 0)
    scene.leading.appended([OWN])
    assert not scene.leading.can_advance()
    assert not scene.leading.advance()
    scene.ends(10, 10, 0)
    assert not scene.leading.advance()
    assert (scene.high_watermark, scene.answered) == (0, [])
    scene.ends(10, 10, 10)
    assert scene.leading.advance()
    assert (scene.high_watermark, scene.answered) == (10, [OWN])


def test_a_replica_out_of_sync_does_not_hold_the_high_watermark() -> None:
    scene = Scene()
    scene.begin(in_sync=(FIRST,))
    scene.ends(10, 8, 0)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    assert scene.high_watermark == 8


def test_a_leader_without_in_sync_followers_counts_its_own_end() -> None:
    scene = Scene()
    scene.begin(in_sync=())
    scene.ends(10, 0, 0)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    assert scene.high_watermark == 10


def test_a_follower_of_another_epoch_or_in_the_middle_of_a_write_counts_as_empty() -> None:
    scene = Scene()
    scene.begin()
    scene.ends(10, 10, 10)
    scene.slots[FIRST, Slot.LEADER_EPOCH] = EPOCH - 1
    scene.leading.appended([OWN])
    assert not scene.leading.advance()
    scene.slots[FIRST, Slot.LEADER_EPOCH] = EPOCH
    scene.slots[SECOND, Slot.SEQUENCE] = 1
    assert not scene.leading.advance()
    scene.slots[SECOND, Slot.SEQUENCE] = 2
    assert scene.leading.advance()


def test_a_replica_without_the_records_of_its_leaders_start_is_not_in_sync() -> None:
    """A new leader's high watermark may be behind what was acknowledged before."""
    scene = Scene()
    scene.slots[OWN, Slot.EPOCH_START] = 10
    scene.ends(10, 9, 10)
    assert not scene.begin()
    scene.ends(10, 10, 10)
    assert scene.begin()


def test_a_new_leader_advances_over_records_that_were_replicated_before_its_start() -> None:
    """Without another append: their producers wait for the acknowledgement."""
    scene = Scene()
    scene.ends(10, 7, 10)
    scene.publish_high_watermark(5)
    scene.begin()
    assert (scene.high_watermark, scene.answered) == (7, [OWN])
    scene.ends(10, 10, 10)
    assert scene.leading.can_advance()
    assert scene.leading.advance()
    assert (scene.high_watermark, scene.answered) == (10, [OWN, OWN])


def test_a_replica_that_leaves_the_in_sync_set_no_longer_holds_the_high_watermark() -> None:
    scene = Scene()
    scene.begin()
    scene.ends(10, 8, 3)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    assert scene.high_watermark == 3
    scene.begin(in_sync=(FIRST,))
    assert (scene.high_watermark, scene.answered) == (8, [OWN, OWN])


def test_a_durable_topic_counts_what_is_on_disk() -> None:
    scene = Scene()
    scene.slots[OWN, Slot.FLAGS] = SlotFlag.DURABLE
    scene.begin()
    scene.ends(10, 10, 10)
    scene.ends(10, 4, 10, word=Slot.DURABLE)
    scene.leading.appended([OWN])
    assert scene.leading.advance()
    assert scene.high_watermark == 4


def test_the_high_watermark_does_not_advance_below_min_insync_replicas() -> None:
    """KIP-966."""
    scene = Scene()
    scene.begin(in_sync=(FIRST,), minimum=3)
    assert scene.rows[OWN, AppendRow.TOO_FEW]
    scene.ends(10, 10, 10)
    scene.leading.appended([OWN])
    assert not scene.leading.advance()
    scene.begin(in_sync=(FIRST, SECOND), minimum=3)
    assert not scene.rows[OWN, AppendRow.TOO_FEW]
    assert scene.high_watermark == 10


def test_a_new_member_is_complete_when_it_has_all_below_the_high_watermark() -> None:
    scene = Scene()
    scene.ends(10, 9, 8)
    scene.publish_high_watermark(9)
    assert scene.begin(in_sync=(FIRST,))
    assert not scene.begin(in_sync=(FIRST, SECOND))
    assert scene.high_watermark == 9  # it never goes back


def test_a_partition_that_is_led_elsewhere_is_forgotten() -> None:
    scene = Scene()
    scene.begin()
    scene.leads = False
    scene.ends(10, 10, 10)
    scene.leading.appended([OWN])
    assert not scene.leading.advance()
    assert len(scene.leading) == 0
    assert scene.high_watermark == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=30))
def test_the_high_watermark_never_passes_a_replica_and_never_goes_back(steps: list[tuple[int, int]]) -> None:
    scene = Scene()
    scene.begin()
    before = 0
    ends = [0, 0, 0]
    for slot, count in steps:
        ends[slot] = ends[slot] + count if slot == OWN else min(ends[slot] + count, ends[OWN])
        scene.ends(*ends)
        scene.leading.appended([OWN])
        scene.leading.advance()
        assert before <= scene.high_watermark == min(ends)
        before = scene.high_watermark
