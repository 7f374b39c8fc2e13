"""A follower's log becomes its leader's: copied from the leader's files, cut where the two
differ."""

import os
from collections.abc import Callable

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.replication import copier
from kbroker.io.replication import following as module
from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.ipc.messages import Follow
from tests.io.append.plain_append import offsets
from tests.io.replication.following_scene import GENERATION, LEADER, OWN, Scene
from tests.log.batch_bytes import batch, end_marker

Make = Callable[..., Scene]


def test_a_follower_copies_its_leaders_bytes_and_its_high_watermark(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b", b"c")
    case.mark(2)
    case.follow()
    case.assert_equal()
    assert case.high_watermark == 2
    assert not case.following.is_lagging()
    case.write(b"d")
    assert case.following.is_lagging()
    assert case.following.pull()
    case.assert_equal()
    assert not case.following.pull()


def test_a_high_watermark_without_new_records_reaches_the_follower_by_its_timer(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b")
    case.mark(1)
    case.follow()
    case.mark(2)
    case.check()
    assert case.high_watermark == 2


def test_a_high_watermark_never_goes_back_and_never_beyond_what_was_copied(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b", b"c")
    case.mark(3)
    case.follow()
    case.mark(1)
    case.write(b"d")
    case.leader.words[Slot.HIGH_WATERMARK] = 1
    case.following.pull()
    assert case.high_watermark == 3
    case.leader.words[Slot.HIGH_WATERMARK] = 99
    case.check()
    assert case.high_watermark == case.end == 4


def test_records_that_only_a_former_leader_had_are_truncated(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b")
    case.mark(2)
    case.follow()
    assert case.lowered == []
    case.own.partition.role.lead(2)
    case.write(b"x", b"y", b"z", to=case.own)
    case.leader.partition.role.lead(3)
    case.write(b"c")
    case.follow(3)
    case.assert_equal()
    assert case.lowered == [OWN], "the recovery point is written"
    assert offsets(case.leader)[:3] == [0, 1, 2]
    assert case.own.partition.epochs.entries == case.leader.partition.epochs.entries


def test_records_of_an_epoch_that_the_leader_lacks_are_kept_up_to_the_high_watermark(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b", b"c")
    case.mark(2)
    case.follow()
    cut: list[int] = []
    case.own.partition.epochs.assign(9, 1)
    whole = case.own.partition.truncate_to
    case.own.partition.truncate_to = lambda end, now: (cut.append(end), whole(end, now))  # type: ignore
    case.leader.partition.role.lead(3)
    case.follow(3)
    assert cut == [2]


@pytest.mark.parametrize(
    ("word", "value"), [(Slot.LEADER_EPOCH, 0), (Slot.GENERATION, 6), (Slot.STATE, 0), (Slot.SEQUENCE, 1)]
)
def test_nothing_is_copied_before_the_leader_leads_with_the_epoch_of_control(
    scene: Make, word: int, value: int
) -> None:
    case = scene()
    case.write(b"a")
    right = int(case.leader.words[word])
    case.leader.words[word] = value
    case.follow()
    assert (case.end, case.following.waiting) == (0, True)
    case.leader.words[word] = right
    case.check()
    assert (case.end, case.following.waiting) == (1, False)


def test_a_log_of_many_segments_is_copied_completely(scene: Make) -> None:
    case = scene(segment_bytes=300)
    case.write(*(b"%03d" % n for n in range(20)))
    case.follow()
    case.check()
    for _ in range(20):
        case.following.pull()
    case.assert_equal()
    assert len(case.files(case.own)) == len(case.files(case.leader)) > 3


def test_a_damaged_batch_is_not_copied_and_the_copy_is_tried_again_later(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"bbbbbb")
    (path,) = case.leader.folder.glob("*.log")
    good = path.read_bytes()
    path.write_bytes(good.replace(b"bbbbbb", b"bbbbxb"))
    case.follow()
    case.check()
    assert case.end <= 1
    assert case.following.waiting
    path.write_bytes(good)
    case.check(later_ns=999_999_999)
    assert case.end <= 1
    case.check(later_ns=1)
    case.assert_equal()


def test_a_batch_that_begins_below_the_copys_end_and_ends_above_is_not_copied(scene: Make) -> None:
    """An offset would be there twice."""
    case = scene()
    case.own.append(batch(0, [b"a", b"b"]))
    case.leader.append(batch(0, [b"a"]))
    case.leader.append(batch(0, [b"b", b"c"]))
    before = case.files(case.own)
    case.follow()
    for _ in range(3):
        case.check(later_ns=1_000_000_000)
    assert case.end == 2
    assert case.files(case.own) == before


def test_a_transaction_ends_in_the_copy_where_it_ends_in_the_leader(scene: Make) -> None:
    case = scene()
    case.leader.append(batch(0, [b"a"], attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0))
    case.mark(1)
    case.follow()
    assert case.own.row[AppendRow.FIRST_UNSTABLE] == 0
    case.leader.append(end_marker(0, 5, 0, commit=False))
    case.mark(2)
    case.following.pull()
    case.check()
    case.assert_equal()
    assert case.own.row[AppendRow.FIRST_UNSTABLE] == -1
    assert list(case.own.folder.glob("*.txnindex"))


def test_a_throttled_copy_waits(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    case.limits, case.held = [(0, 0)], True
    case.follow()
    assert case.end == 0
    case.held = False
    case.check(later_ns=module.HELD_NS)
    assert case.end == 1


def test_a_durable_topics_copy_is_flushed_at_once(scene: Make) -> None:
    case = scene(flags=SlotFlag.DURABLE)
    case.write(b"a")
    case.follow()
    assert case.flushed == [(OWN,)]


def test_a_copy_continues_after_its_log_was_away_or_paused(scene: Make) -> None:
    case = scene()
    case.own.partition.role.pause()
    case.write(b"a")
    case.follow()
    assert case.end == 0
    case.own.partition.role.resume()
    case.check(later_ns=module.SHORT_PAUSE_NS)
    assert case.end == 1


def test_a_reopened_log_agrees_with_its_leader_again(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    case.follow()
    case.own.partition.role.follow(-1)
    case.write(b"b")
    assert case.following.pull()
    assert case.own.partition.active.leader_epoch == 1
    case.assert_equal()


def test_a_follower_takes_no_appends(scene: Make) -> None:
    case = scene()
    case.own.partition.role.lead(2)
    assert case.own.row[AppendRow.STATE] == 1
    case.follow()
    assert case.own.row[AppendRow.STATE] != 1
    assert case.forgotten == [OWN], "appends that waited for replicas get an error"


def test_without_a_leader_nothing_is_copied_and_nothing_is_appended(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    case.follow()
    case.following.follow(Follow(OWN, 2, -1, GENERATION, 0, ""))
    assert len(case.following) == 0
    case.write(b"b")
    case.check()
    assert case.end == 1
    assert case.own.row[AppendRow.STATE] != 1


def test_fetches_that_wait_at_a_log_are_woken_when_its_leader_changes(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, notified = scene(), list[int]()
    monkeypatch.setattr(case.drain, "notify", notified.append)
    case.follow()
    assert notified == [OWN]
    case.following.follow(Follow(OWN, 2, -1, GENERATION, 0, ""))
    assert notified == [OWN, OWN]


def test_a_batch_that_is_larger_than_the_buffer_is_copied(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "BUFFER_BYTES", 64)
    case = scene()
    case.write(b"a" * 200, b"b", b"c" * 300)
    case.follow()
    for _ in range(3):
        case.following.pull()
    case.assert_equal()


def test_the_producers_of_a_leader_are_known_in_its_copy_however_many(scene: Make) -> None:
    case = scene()
    for producer_id in range(40):
        case.leader.append(batch(0, [b"v"], producer_id=producer_id, producer_epoch=2, base_sequence=5))
    case.follow()
    case.assert_equal()
    own_part, its = (log.partition.producers.entries() for log in (case.own, case.leader))
    assert len(own_part) == 40
    assert own_part == its


def test_a_copy_that_lost_its_end_continues_where_it_ends_now(scene: Make) -> None:
    """And not at the place in the leader's file where it was: batches above the end leave a gap."""
    case = scene()
    case.write(b"a", b"b")
    case.follow()
    assert case.end == 2
    case.own.partition.truncate_to(1, case.own.now_ms)
    case.own.partition.role.follow(-1)
    case.write(b"c")
    for _ in range(2):
        case.check(later_ns=1_000_000_000)
    case.assert_equal()
    assert offsets(case.own) == [0, 1, 2]


def test_a_copy_says_that_it_follows_only_once_it_agrees(scene: Make) -> None:
    """Its end counts for the high watermark from then on."""
    case = scene()
    case.write(b"a")
    case.leader.words[Slot.STATE] = SlotState.RECOVERING
    case.follow()
    assert case.own.words[Slot.LEADER_EPOCH] == -1
    case.leader.words[Slot.STATE] = SlotState.ONLINE
    case.check()
    assert case.own.words[Slot.LEADER_EPOCH] == 1
    case.following.follow(Follow(OWN, 2, LEADER, GENERATION, 0, str(case.leader.folder)))
    assert case.own.words[Slot.LEADER_EPOCH] == -1


def test_a_leader_is_woken_when_its_copy_agrees_and_when_it_grows(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends there may wait for it."""
    case = scene()
    woken: list[int] = []
    monkeypatch.setattr(module, "wake_process", lambda shared, process: woken.append(process))
    case.follow()
    assert len(woken) == 1, "an empty copy of an empty log agrees"
    case.write(b"a")
    case.following.pull()
    assert len(woken) == 2
    case.check()
    assert len(woken) == 2


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_log_that_came_back_to_a_folder_of_the_same_name_is_read_from_its_new_files(
    scene: Make, forgotten: bool
) -> None:
    case = scene()
    case.write(b"a")
    case.follow()
    case.assert_equal()
    (path,) = case.leader.folder.glob("*.log")
    moved = path.with_suffix(".moved")
    moved.write_bytes(path.read_bytes())
    moved.replace(path)
    new = os.open(path, os.O_RDWR)
    os.dup2(new, case.leader.partition.active.files.log)
    os.close(new)
    if forgotten:
        case.following.forget(OWN)
    case.leader.partition.role.lead(3)
    case.write(b"b")
    case.follow(3)
    case.assert_equal()
    assert case.end == 2


def test_a_changed_list_of_segments_is_searched_for_the_place_again(scene: Make) -> None:
    """A place in a file that compaction has replaced is that of other bytes."""
    case = scene()
    case.write(b"a")
    case.follow()
    followed = case.following._followed[OWN]
    searched: list[int] = []
    locate = followed.reader.locate

    def noted(offset: int, *end: int) -> object:
        searched.append(offset)
        return locate(offset, *end)

    followed.reader.locate = noted  # type: ignore
    case.write(b"b")
    assert case.following.pull()
    assert searched == [], "the place is known"
    case.write(b"c")
    case.leader.words[Slot.SEGMENTS_VERSION] += 1
    assert case.following.pull()
    assert searched == [2]
    case.assert_equal()


def test_an_end_that_the_leaders_file_has_not_reached_is_waited_for(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    case.follow()
    case.leader.words[Slot.LOG_END] += 1
    assert not case.following.pull()
    assert case.following.waiting
    assert case.end == 1


def test_a_truncated_log_does_not_grow_before_its_lower_recovery_point_is_written(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = scene()
    case.write(b"a", b"b")
    case.mark(2)
    case.follow()
    case.own.partition.role.lead(2)
    case.write(b"x", to=case.own)
    case.leader.partition.role.lead(3)
    case.write(b"c")
    full = OSError(28, "No space left on device")

    def lowered(_: int) -> None:
        raise full

    with monkeypatch.context() as no_room:
        no_room.setattr(case.following._logs, "truncated", lowered)
        case.follow(3)
        case.check(later_ns=module.PAUSE_NS)
    assert case.failed == [full] * 2
    assert offsets(case.own) == [0, 1]
    case.check(later_ns=module.PAUSE_NS)
    assert case.lowered == [OWN]
    case.assert_equal()
