"""Where two logs part ways: compared with logs that were really written by a succession of leaders."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.replication.agreement import agreed_end


def epochs(*entries: tuple[int, int]) -> LeaderEpochFileCache:
    return LeaderEpochFileCache("/nowhere", list(entries))


def test_a_log_that_is_a_part_of_its_leaders_keeps_everything() -> None:
    assert agreed_end(epochs((0, 0)), 10, epochs((0, 0), (1, 15)), 20, 5) == 10


def test_what_a_former_leader_had_alone_goes() -> None:
    assert agreed_end(epochs((0, 0)), 30, epochs((0, 0), (1, 15)), 20, 5) == 15


def test_an_epoch_that_the_leader_never_saw_is_passed_over() -> None:
    mine, leader = epochs((0, 0), (1, 10), (2, 12)), epochs((0, 0), (1, 10), (3, 11))
    assert agreed_end(mine, 20, leader, 30, 5) == 11
    assert agreed_end(epochs((0, 0), (2, 12)), 20, epochs((0, 0), (1, 10), (3, 14)), 30, 5) == 10


def test_without_epochs_the_high_watermark_counts() -> None:
    assert agreed_end(epochs(), 10, epochs((4, 0)), 20, 7) == 7


def test_a_leader_that_has_forgotten_the_epoch_agrees_up_to_its_first_one() -> None:
    assert agreed_end(epochs((1, 0)), 10, epochs((4, 8)), 20, 7) == 8


class Log:
    """A replica: its records by leader epoch, and its epochs as a partition keeps them."""

    def __init__(self) -> None:
        self.records: list[int] = []
        self.epochs = LeaderEpochFileCache("/nowhere")

    def lead(self, epoch: int, count: int) -> None:
        """Begin an epoch at the log's end and append."""
        self.epochs.note(epoch, len(self.records))
        self.records += [epoch] * count

    def agreed(self, leader: "Log") -> int:
        mine, theirs = len(self.records), len(leader.records)
        return agreed_end(self.epochs, mine, leader.epochs, theirs, 0)

    def follow(self, leader: "Log", lag: int) -> None:
        """Cut what the leader lacks, then copy all but the last few."""
        end = self.agreed(leader)
        del self.records[end:]
        self.epochs.truncate_from_end(end)
        for offset in range(end, len(leader.records) - lag):
            self.epochs.note(leader.records[offset], offset)
            self.records.append(leader.records[offset])


STEPS = st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 1), st.integers(0, 2))


@given(st.lists(STEPS, min_size=1, max_size=10))
def test_logs_agree_below_the_answer_and_not_at_it(history: list[tuple[int, int, int, int]]) -> None:
    """Any of three replicas leads next, in sync or not; one other copies a part of its log."""
    logs = [Log(), Log(), Log()]
    for epoch, (leader, count, which, lag) in enumerate(history):
        logs[leader].lead(epoch, count)
        for other in range(3):
            if other != leader:
                mine, theirs = logs[other].records, logs[leader].records
                end = logs[other].agreed(logs[leader])
                assert mine[:end] == theirs[:end]
                assert end in (len(mine), len(theirs)) or mine[end] != theirs[end]
        logs[(leader + 1 + which) % 3].follow(logs[leader], lag)
