"""When the threads of the cleaner look for work."""

import threading

import pytest

from kbroker.cleaner.cleaner_state import (
    DIRTIEST,
    FAILURES,
    MAX_MAP_BYTES,
    READ_BYTES,
    RUNS,
    UNCLEANABLE,
    WRITTEN_BYTES,
    CleanerState,
)
from kbroker.cleaner.log_cleaner import Cleaned
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.cleaning_messages import CleanableLog
from kbroker.ipc.shared import Shared, Sizes
from kbroker.metrics.slots import Slots

PATIENCE_S = 30.0


@pytest.fixture
def state() -> CleanerState:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16))
    config = BrokerConfig({"log.cleaner.backoff.ms": "600000"})
    return CleanerState(config, Slots(shared.metrics[shared.cleaner_process]))


def test_a_call_ends_the_back_off_also_when_it_came_before_it(state: CleanerState) -> None:
    state.wake_threads()
    state.back_off()
    waiting = threading.Thread(target=state.back_off, daemon=True)
    waiting.start()
    state.wake_threads()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


@pytest.mark.parametrize(("checked", "pause_s"), [(0, 0.005), (50, 0.01), (10_000, 1.005)])
def test_a_call_waits_for_a_pause_after_the_check(
    state: CleanerState, monkeypatch: pytest.MonkeyPatch, checked: int, pause_s: float
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(state.stop, "wait", waits.append)
    state.wake_threads()
    state.back_off(checked)
    assert waits == [pytest.approx(pause_s)]


def test_after_the_end_there_is_no_back_off(state: CleanerState) -> None:
    state.stop.set()
    state.wake_threads()
    for _ in range(3):
        state.back_off()


def log(slot: int, ratio: float, due: bool = True) -> CleanableLog:
    return CleanableLog(slot, 1, ratio, due)


def test_the_dirtiest_log_that_is_due_is_taken(state: CleanerState) -> None:
    logs = [(0, log(1, 0.3)), (1, log(2, 0.8)), (0, log(3, 0.9, due=False)), (0, log(4, 0.5))]
    assert state.take_filthiest(logs) == logs[1]
    assert state.metrics.words[DIRTIEST] == 90
    assert state.take_filthiest(logs[2:3]) is None


def test_one_thread_at_a_time_cleans_a_log(state: CleanerState) -> None:
    logs = [(0, log(1, 0.5)), (0, log(2, 0.4))]
    assert state.take_filthiest(logs) == logs[0]
    assert state.take_filthiest(logs) == logs[1]
    assert state.take_filthiest(logs) is None
    state.done(logs[0][1], None, 1)
    assert state.take_filthiest(logs) == logs[0]


def test_a_log_whose_cleaning_failed_comes_after_the_others(state: CleanerState) -> None:
    """Its disk may be full, and other disks have logs, too."""
    logs = [(0, log(1, 0.9)), (1, log(2, 0.5))]
    assert state.take_filthiest(logs) == logs[0]
    state.done(logs[0][1], None, 1)
    assert state.take_filthiest(logs) == logs[1]
    state.done(logs[1][1], Cleaned(), 1)
    assert state.take_filthiest(logs[:1]) == logs[0]
    state.done(logs[0][1], Cleaned(), 1)
    assert state.take_filthiest(logs) == logs[0]


def test_a_log_that_fails_for_good_is_not_taken_again(state: CleanerState) -> None:
    logs = [(0, log(1, 0.5))]
    state.failed(logs[0][1], for_good=False)
    assert state.take_filthiest(logs) == logs[0]
    state.done(logs[0][1], None, 1)
    state.failed(logs[0][1], for_good=True)
    assert state.take_filthiest(logs) is None
    assert [int(state.metrics.words[word]) for word in (FAILURES, UNCLEANABLE)] == [2, 1]


def test_an_uncleanable_log_that_is_deleted_is_not_counted_any_more(state: CleanerState) -> None:
    """The alert on the gauge asks for the deletion of its topic."""
    kept, deleted = (0, log(1, 0.5)), (1, log(2, 0.5))
    state.failed(kept[1], for_good=True)
    state.failed(deleted[1], for_good=True)
    assert state.take_filthiest([kept], complete=False) is None  # the other IO worker does not answer
    assert state.metrics.words[UNCLEANABLE] == 2
    assert state.take_filthiest([kept]) is None
    assert state.metrics.words[UNCLEANABLE] == 1
    assert state.take_filthiest([kept, deleted]) == deleted  # a log that is compacted again


def test_a_log_that_cannot_be_cleaned_is_tried_again_with_a_map_of_another_size(state: CleanerState) -> None:
    """The broker's log says that the map was too small, and its size can be changed without a
    restart."""
    logs = [(0, log(1, 0.5))]
    state.failed(logs[0][1], for_good=True)
    state.configure({"log.cleaner.backoff.ms": "1000"})
    assert state.take_filthiest(logs) is None
    state.configure({"log.cleaner.dedupe.buffer.size": str(1 << 30)})
    assert state.metrics.words[UNCLEANABLE] == 0
    assert state.take_filthiest(logs) == logs[0]


def test_a_complete_cleaning_counts_its_bytes(state: CleanerState) -> None:
    state.done(log(1, 0.5), Cleaned(map_bytes=3, bytes_read=4, bytes_written=5), 1)
    state.done(log(1, 0.5), None, 1)
    assert [int(state.metrics.words[word]) for word in (RUNS, READ_BYTES, WRITTEN_BYTES)] == [1, 7, 5]


def test_the_pause_is_a_part_of_the_back_off(state: CleanerState, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(state.stop, "wait", waits.append)
    monkeypatch.setattr(state._wake, "wait", waits.append)
    state.back_off(19_950)
    state.configure({"log.cleaner.backoff.ms": "1000"})
    state.back_off(19_950)
    assert waits == [pytest.approx(each) for each in (2.0, 598.0, 2.0, 0.0)]


def test_the_largest_back_off_can_be_waited_for(state: CleanerState, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread died of it: Python's locks refuse to wait for more than 292 years."""
    state.configure({"log.cleaner.backoff.ms": str(2**63 - 1)})
    waits: list[float] = []
    monkeypatch.setattr(state._wake, "wait", waits.append)
    state.back_off()
    (wait_s,) = waits
    assert threading.Lock().acquire(timeout=wait_s)


def test_new_settings_are_used_by_the_throttle_and_share_the_memory(state: CleanerState) -> None:
    sizes = {"log.cleaner.dedupe.buffer.size": str(8 << 30), "log.cleaner.io.buffer.size": str(1 << 20)}
    for threads, map_bytes, buffer_bytes in ((1, MAX_MAP_BYTES, 1 << 19), (8, 1 << 30, 1 << 16)):
        state.configure({**sizes, "log.cleaner.threads": str(threads)})
        assert (state.sizes.map_bytes, state.sizes.buffer_bytes) == (map_bytes, buffer_bytes)
    state.configure({"log.cleaner.io.max.bytes.per.second": "5"})
    assert state.throttle.bytes_per_second == 5.0


def test_a_log_that_cannot_be_cleaned_is_tried_again_with_another_load_factor(state: CleanerState) -> None:
    logs = [(0, log(1, 0.5))]
    state.failed(logs[0][1], for_good=True)
    state.configure({"log.cleaner.io.buffer.load.factor": "0.5"})
    assert state.take_filthiest(logs) == logs[0]


def test_the_dirtiest_of_the_logs_that_no_thread_cleans_is_shown(state: CleanerState) -> None:
    logs = [(0, log(1, 0.999)), (0, log(2, 0.255))]
    state.take_filthiest(logs)
    assert state.metrics.words[DIRTIEST] == 99
    state.take_filthiest(logs)
    assert state.metrics.words[DIRTIEST] == 25
    assert state.take_filthiest(logs) is None
    assert state.metrics.words[DIRTIEST] == 0


def test_a_log_of_another_generation_is_another_log(state: CleanerState) -> None:
    old, new = CleanableLog(1, 1, 0.5, True), CleanableLog(1, 2, 0.5, True)
    state.failed(old, for_good=True)
    assert state.take_filthiest([(0, old)]) is None
    assert state.take_filthiest([(0, new)]) == (0, new)


def test_a_failure_that_may_pass_is_no_uncleanable_log(state: CleanerState) -> None:
    state.failed(log(1, 0.5), for_good=False)
    assert [int(state.metrics.words[word]) for word in (FAILURES, UNCLEANABLE)] == [1, 0]
