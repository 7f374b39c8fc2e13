"""Leader epochs answer as Kafka's LeaderEpochFileCache does."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.io.files import leader_epoch_cache as module
from kbroker.io.files.leader_epoch_cache import UNDEFINED, LeaderEpochFileCache, agreed_end
from kbroker.log import checkpoint


def test_assignments_are_on_disk_and_repeated_ones_are_not_news(tmp_path: Path) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path))
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 15)
    assert epochs.assign(4, 20)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n2 10\n4 20\n"
    assert LeaderEpochFileCache.load(str(tmp_path)).entries == ((2, 10), (4, 20))


def test_an_epoch_that_found_no_room_on_disk_is_written_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(2, 10)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_leader_epochs", full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            epochs.assign(4, 20)
    assert epochs.entries == ((2, 10),)
    assert epochs.assign(4, 20)
    assert LeaderEpochFileCache.load(str(tmp_path)).entries == ((2, 10), (4, 20))


def test_without_a_sync_only_news_is_written(tmp_path: Path) -> None:
    LeaderEpochFileCache(str(tmp_path)).assign(2, 10)
    path = tmp_path / "leader-epoch-checkpoint"
    loaded = LeaderEpochFileCache.load(str(tmp_path))
    loaded.truncate_from_end(10)
    path.unlink()
    assert loaded.assign(2, 10, sync=False)
    assert not path.exists()
    assert loaded.assign(3, 11, sync=False)
    assert path.read_text() == "0\n2\n2 10\n3 11\n"
    path.unlink()
    loaded.write()
    assert path.exists()


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        ((5, 15), ((1, 0), (2, 10), (5, 15))),  # 4 began at 20: it was never committed
        ((3, 30), ((1, 0), (2, 10), (3, 30))),
        ((5, 20), ((1, 0), (2, 10), (5, 20))),  # 4 has no records
        ((4, 12), ((1, 0), (2, 10), (4, 12))),
        ((0, 0), ((0, 0),)),
    ],
)
def test_entries_that_contradict_a_new_one_go(
    tmp_path: Path, new: tuple[int, int], kept: tuple[tuple[int, int], ...]
) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(1, 0), (2, 10), (4, 20)])
    epochs.assign(*new)
    assert epochs.entries == kept


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (-2, (-2, 5)),
        (-1, UNDEFINED),
        (0, (0, 5)),
        (2, (2, 10)),
        (3, (2, 10)),
        (4, (4, 20)),
        (6, (6, 99)),
        (7, UNDEFINED),
    ],
)
def test_an_epoch_has_kafkas_end_offset(tmp_path: Path, requested: int, answer: tuple[int, int]) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(2, 5), (4, 10), (6, 20)])
    assert epochs.end_offset_for(requested, 99) == answer


def test_no_epochs_no_answer(tmp_path: Path) -> None:
    assert LeaderEpochFileCache(str(tmp_path)).end_offset_for(0, 99) == UNDEFINED


def test_truncation_from_the_end(tmp_path: Path) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(2, 5), (4, 10), (6, 20)])
    assert not epochs.truncate_from_end(21)
    assert epochs.truncate_from_end(20)
    assert epochs.entries == ((2, 5), (4, 10))


def test_truncation_from_the_start_keeps_the_epoch_of_the_start(tmp_path: Path) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(2, 5), (4, 10), (6, 20)])
    for unchanged in (4, 5):
        epochs.truncate_from_start(unchanged)
        assert epochs.entries == ((2, 5), (4, 10), (6, 20))
    epochs.truncate_from_start(7)
    assert epochs.entries == ((2, 7), (4, 10), (6, 20))
    epochs.truncate_from_start(10)
    assert epochs.entries == ((4, 10), (6, 20))
    epochs.truncate_from_start(100)
    assert epochs.entries == ((6, 100),)


def test_a_damaged_checkpoint_counts_as_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("broken", "0\n1\n-1 5\n", "0\n2\n1 1\n"):
        caplog.clear()
        (tmp_path / "leader-epoch-checkpoint").write_text(text)
        assert LeaderEpochFileCache.load(str(tmp_path)).entries == ()
        assert "the epochs are taken from the batches" in caplog.text


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=12), st.integers(0, 60))
def test_entries_always_rise_in_both(steps: list[tuple[int, int]], cut: int) -> None:
    epochs = LeaderEpochFileCache("")
    for epoch, start in steps:
        epochs._add(epoch, start)
    epochs.truncate_from_start(cut // 2)
    epochs.truncate_from_end(cut)
    entries = list(epochs.entries)
    assert entries == sorted(set(entries))
    assert [start for _, start in entries] == sorted({start for _, start in entries})


def test_clearing_reaches_the_disk(tmp_path: Path) -> None:
    epochs = LeaderEpochFileCache(str(tmp_path), [(2, 5)])
    epochs.clear()
    assert checkpoint.read_leader_epochs(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, -1), (4, -1), (5, 2), (9, 2), (10, 4), (19, 4), (20, 6), (99, 6)]
)
def test_an_offset_has_the_epoch_that_began_before_it(tmp_path: Path, offset: int, epoch: int) -> None:
    assert LeaderEpochFileCache(str(tmp_path), [(2, 5), (4, 10), (6, 20)]).at(offset) == epoch
    assert LeaderEpochFileCache(str(tmp_path)).at(offset) == -1


def epochs(*entries: tuple[int, int]) -> LeaderEpochFileCache:
    return LeaderEpochFileCache("/nowhere", list(entries))


def test_a_log_that_is_a_part_of_its_leaders_keeps_everything() -> None:
    assert agreed_end(epochs((0, 0)), 10, epochs((0, 0), (1, 15)), 20, 5) == 10


def test_epochs_of_a_former_leader_are_removed() -> None:
    assert agreed_end(epochs((0, 0)), 30, epochs((0, 0), (1, 15)), 20, 5) == 15


def test_an_epoch_that_the_leader_never_saw_is_passed_over() -> None:
    own, leader = epochs((0, 0), (1, 10), (2, 12)), epochs((0, 0), (1, 10), (3, 11))
    assert agreed_end(own, 20, leader, 30, 5) == 11
    assert agreed_end(epochs((0, 0), (2, 12)), 20, epochs((0, 0), (1, 10), (3, 14)), 30, 5) == 10


def test_without_epochs_the_high_watermark_counts() -> None:
    assert agreed_end(epochs(), 10, epochs((4, 0)), 20, 7) == 7


def test_a_leader_that_has_forgotten_the_epoch_agrees_up_to_its_first_one() -> None:
    assert agreed_end(epochs((1, 0)), 10, epochs((4, 8)), 20, 7) == 8


@pytest.mark.parametrize(("high_watermark", "agreed"), [(7, 7), (30, 20)])
def test_nothing_above_the_high_watermark_is_agreed_with_a_leader_that_knows_only_older_epochs(
    high_watermark: int, agreed: int
) -> None:
    """It cannot say where the newer epoch begins: what is not committed goes."""
    assert agreed_end(epochs((0, 0), (5, 4)), 20, epochs((0, 0), (3, 4)), 30, high_watermark) == agreed
    assert agreed_end(epochs((5, 0)), 20, epochs(), 30, high_watermark) == agreed


def test_a_log_without_epochs_agrees_with_nothing_beyond_its_end() -> None:
    assert agreed_end(epochs(), 10, epochs((4, 0)), 20, 10) == 10


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
        own, theirs = len(self.records), len(leader.records)
        return agreed_end(self.epochs, own, leader.epochs, theirs, 0)

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
                own, theirs = logs[other].records, logs[leader].records
                end = logs[other].agreed(logs[leader])
                assert own[:end] == theirs[:end]
                assert end in (len(own), len(theirs)) or own[end] != theirs[end]
        logs[(leader + 1 + which) % 3].follow(logs[leader], lag)
