"""Copies that lag behind their leader, and copies that may join the in-sync replicas."""

import pytest

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.replication.lag import Lag
from kbroker.ipc.layout import Slot, SlotState

MAX_LAG_NS = 250
LEADER, COPY = 0, 1


class Scene:
    """A leader whose log ends at 10, with a high watermark and an epoch from 7 on, and one copy of
    it that has all."""

    def __init__(self, in_sync: bool = True) -> None:
        self.now_ns = 1000
        self.words = Slot.table(2)
        self.partition = Partition("t", 0, "/d", LEADER, 1)
        self.copy = Replica("t", 0, "/e", COPY, 1, in_sync=in_sync)
        self.partition.replicas = [self.partition.leader, self.copy]
        for slot in (LEADER, COPY):
            self.words[slot, Slot.STATE] = SlotState.ONLINE
            self.words[slot, Slot.LEADER_EPOCH] = 3
            self.words[slot, Slot.LOG_END] = 10
        self.words[LEADER, Slot.HIGH_WATERMARK] = self.words[LEADER, Slot.EPOCH_START] = 7
        self.lag = Lag(self.words, lambda: self.now_ns)

    def find(self, after_ns: int = 100) -> tuple[int, int]:
        """Number of late and of joining copies of the next check."""
        self.now_ns += after_ns
        late, joining = self.lag.find([self.partition], MAX_LAG_NS)
        assert all(pair == (self.partition, self.copy) for pair in (*late, *joining))
        return len(late), len(joining)


def test_a_copy_with_all_records_has_caught_up_now() -> None:
    scene = Scene()
    assert scene.find() == (0, 0)
    assert scene.copy.caught_up_ns == scene.now_ns


def test_a_copy_with_the_records_of_the_last_check_has_caught_up_then() -> None:
    scene = Scene()
    scene.find()
    checked_ns = scene.now_ns
    scene.words[LEADER, Slot.LOG_END] = 12
    scene.find()
    assert scene.copy.caught_up_ns == checked_ns
    scene.find()
    assert scene.copy.caught_up_ns == checked_ns, "it lacks records of the last check"


@pytest.mark.parametrize(("word", "value"), [(Slot.LEADER_EPOCH, 2), (Slot.STATE, SlotState.OFFLINE)])
def test_a_copy_that_does_not_follow_has_not_caught_up(word: int, value: int) -> None:
    scene = Scene()
    scene.find()
    before = scene.copy.caught_up_ns
    scene.words[COPY, word] = value
    scene.find()
    assert scene.copy.caught_up_ns == before
    scene.copy.in_sync = False
    assert scene.find() == (0, 0)


def test_a_copy_is_late_after_more_than_the_maximum() -> None:
    scene = Scene()
    scene.find()
    scene.words[COPY, Slot.LOG_END] = 9
    assert scene.find(MAX_LAG_NS) == (0, 0)
    assert scene.find(1) == (1, 0)


def test_a_copy_that_was_never_checked_has_the_maximum_from_the_last_check_on() -> None:
    scene = Scene()
    scene.words[COPY, Slot.LOG_END] = 0
    assert scene.find(MAX_LAG_NS) == (0, 0)
    assert scene.copy.caught_up_ns == 1000
    assert scene.find(1) == (1, 0)


@pytest.mark.parametrize(("end", "joins"), [(6, 0), (7, 1), (9, 1), (10, 1)])
@pytest.mark.parametrize("bound", [Slot.HIGH_WATERMARK, Slot.EPOCH_START])
def test_a_copy_joins_with_what_is_committed_and_what_the_leader_began_with(
    bound: int, end: int, joins: int
) -> None:
    scene = Scene(in_sync=False)
    scene.words[LEADER, [Slot.HIGH_WATERMARK, Slot.EPOCH_START]] = 0
    scene.words[LEADER, bound] = 7
    scene.words[COPY, Slot.LOG_END] = 0
    scene.find()
    scene.words[COPY, Slot.LOG_END] = end
    assert scene.find() == (0, joins)


def test_a_copy_that_copies_nothing_joins_only_if_it_lacks_nothing() -> None:
    scene = Scene(in_sync=False)
    scene.words[COPY, Slot.LOG_END] = 9
    assert [scene.find() for _ in range(2)] == [(0, 0), (0, 0)]
    scene.words[LEADER, Slot.LOG_END] = 9
    assert scene.find() == (0, 1)


def test_a_copy_that_was_cut_must_copy_from_there_on() -> None:
    scene = Scene(in_sync=False)
    found = []
    for end in (9, 8, 8, 9):
        scene.words[COPY, Slot.LOG_END] = end
        found.append(scene.find())
    assert found == [(0, 0), (0, 0), (0, 0), (0, 1)]
