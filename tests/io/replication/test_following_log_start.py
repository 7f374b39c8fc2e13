"""Where a follower's log begins: at its leader's log start, or at the batch that holds it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.replication.following import PAUSE_NS
from kbroker.ipc.layout import Slot
from tests.io.append.plain_append import offsets
from tests.io.replication.following_scene import OWN, Scene
from tests.log.batch_bytes import batch

Make = Callable[..., Scene]


def test_an_empty_log_begins_where_the_leaders_does(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b", b"c")
    case.mark(3)
    case.leader.partition.roll(case.leader.now_ms)
    case.write(b"d")
    case.mark(4)
    case.leader.partition.advance_log_start(3)
    case.follow()
    assert (case.own.partition.log_start, case.end) == (3, 4)
    assert offsets(case.own) == [3]


def test_a_copy_that_ends_below_its_leaders_log_start_starts_over_there(scene: Make) -> None:
    """Records that the leader has deleted are not copied, though their segment is still there."""
    case = scene()
    case.write(b"a")
    case.mark(1)
    case.follow()
    assert case.end == 1
    case.write(b"b", b"c", b"d")
    case.mark(4)
    case.leader.partition.advance_log_start(3)
    for _ in range(2):
        case.check(later_ns=1_000_000_000)
    assert (case.own.partition.log_start, case.end) == (3, 4)
    assert offsets(case.own) == [3]
    assert case.own.partition.epochs.entries == ((1, 3),), "of the same epoch as the records that are gone"


def test_a_log_start_that_moves_reaches_the_follower(scene: Make) -> None:
    case = scene()
    case.write(b"a", b"b")
    case.mark(2)
    case.follow()
    assert case.starts == {}
    case.leader.partition.advance_log_start(1)
    case.check()
    assert case.starts == {OWN: 1}


def test_a_log_start_that_finds_no_room_is_tried_again_after_a_pause(scene: Make) -> None:
    """Each batch that was copied tried the full disk again and logged that."""
    case = scene()
    case.write(b"a", b"b")
    case.mark(2)
    case.follow()
    case.leader.partition.advance_log_start(1)
    case.check()
    tries = []
    for _ in range(3):
        case.starts.clear()
        case.write(b"c")
        assert case.following.pull()
        tries.append(dict(case.starts))
    assert tries == [{}] * 3
    case.check(later_ns=PAUSE_NS)
    assert case.starts == {OWN: 1}


def test_a_copy_begins_with_the_batch_that_holds_the_log_start(scene: Make) -> None:
    """DeleteRecords may end within a batch."""
    case = scene()
    case.leader.append(batch(0, [b"a", b"b", b"c"]))
    case.write(b"d")
    case.mark(4)
    case.leader.partition.advance_log_start(2)
    case.follow()
    case.assert_equal()
    assert offsets(case.own) == [0, 3]


@pytest.mark.parametrize(("first", "begin"), [(None, 4), (2, 2), (4, 4), (6, 4)])
def test_a_copy_begins_no_higher_than_the_log_start(scene: Make, first: int | None, begin: int) -> None:
    """Compaction may have removed the records that follow it."""
    case = scene()
    case.leader.words[Slot.LOG_START] = 4
    found = None if first is None else SimpleNamespace(base_offset=first)
    followed: Any = SimpleNamespace(reader=SimpleNamespace(locate=lambda *_: found))
    words = case.leader.words.tolist()
    assert case.following._first_batch_offset(followed, case.own.partition, words) == begin
