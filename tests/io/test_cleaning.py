"""What of a log may be cleaned, and which logs are due."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.io.cleaning import Cleaning, cleanable_range
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.cleaning_messages import BeginCleaning, CleanableLogs, EndCleaning, SwapSegments
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import checkpoint, files
from kbroker.protocol.errors import KafkaError
from tests.cleaner.compacted import DAY, Compacted, OneLog
from tests.io.append.plain_append import NOW, topic_config


def with_segments(case: Compacted, count: int) -> list[int]:
    """Closed segments of two records each; base offsets of all, the active one last."""
    for _ in range(count):
        case.append([(b"a", b"x" * 50), (b"b", b"x" * 50)])
        case.roll()
    case.partition.durability.flush()
    return case.partition.base_offsets


def test_everything_but_the_active_segment_is_dirty_at_first(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    bases = with_segments(case, 3)
    span = cleanable_range(case.partition, NOW)
    assert (span.first_dirty, span.upper) == (0, bases[-1])
    assert (span.clean_bytes, span.cleanable_bytes, span.ratio) == (0, case.partition.size, 1.0)


def test_cleaned_segments_are_clean(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    case.clean()
    assert cleanable_range(case.partition, NOW).ratio == 0
    with_segments(case, 1)
    assert 0 < cleanable_range(case.partition, NOW).ratio < 1


def test_nothing_at_or_above_the_last_stable_offset_is_cleaned(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 2)
    case.append([(b"t", b"1")], producer=21, transactional=True)
    with_segments(case, 2)
    span = cleanable_range(case.partition, NOW)
    assert span.upper == case.partition.base_offsets[2]
    case.end(21, commit=True)
    case.roll()
    case.partition.durability.flush()
    assert cleanable_range(case.partition, NOW).upper == case.partition.base_offsets[-1]


def test_young_records_are_not_cleaned(tmp_path: Path) -> None:
    case = Compacted(tmp_path, min_compaction_lag_ms=DAY)
    with_segments(case, 2)
    case.clock += DAY // 2
    bases = with_segments(case, 2)
    assert cleanable_range(case.partition, NOW + DAY).upper == 0
    assert cleanable_range(case.partition, NOW + DAY + 10).upper == bases[2]
    assert cleanable_range(case.partition, NOW + 2 * DAY).upper == bases[-1]


def test_a_segment_that_is_still_to_be_synced_waits(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    bases = with_segments(case, 2)
    case.append([(b"a", b"")])
    case.roll()
    assert cleanable_range(case.partition, NOW).upper == bases[-1]
    case.partition.durability.flush()
    assert cleanable_range(case.partition, NOW).upper == case.partition.base_offsets[-1]


def test_a_log_is_due_by_its_ratio_or_by_the_age_of_its_dirt(tmp_path: Path) -> None:
    case = Compacted(tmp_path, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=DAY)
    with_segments(case, 4)
    dirt = case.dirt()
    assert dirt is not None
    assert dirt.due
    case.clean()
    with_segments(case, 1)
    dirt = case.dirt()
    assert dirt is not None
    assert not dirt.due
    case.clock += DAY + 2
    dirt = case.dirt()
    assert dirt is not None
    assert dirt.due


def test_a_log_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    bad, good = Compacted(tmp_path / "bad", max_compaction_lag_ms=DAY), Compacted(tmp_path / "good")
    for case in (bad, good):
        with_segments(case, 2)
    (bad.log.folder / f"{0:020d}.log").unlink()
    failed: list[int] = []

    class Both(OneLog):
        def __iter__(self) -> Iterator[UnifiedLog]:
            return iter([bad.partition, good.partition])

        def read_failed(self, slot: int, _: OSError) -> None:
            failed.append(slot)

    cleaning = Cleaning(Both(good.partition), good.woken.append, lambda: NOW)
    assert len(cleaning.cleanable(CleanableLogs())) == 1
    assert failed == [3]


def test_a_log_that_is_not_compacted_is_never_offered(tmp_path: Path) -> None:
    for policy in ("delete", ""):
        case = Compacted(tmp_path / (policy or "none"), cleanup_policy=policy)
        with_segments(case, 3)
        assert case.dirt() is None
        assert case.clean() is None


def test_a_checkpoint_outside_of_the_log_counts_as_none(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    case.partition.cleaned_up_to(1000)
    assert cleanable_range(case.partition, NOW).first_dirty == 0
    case.partition.cleaned_up_to(2)
    case.partition.delete_records(4)
    assert cleanable_range(case.partition, NOW).first_dirty == 4


def test_a_log_is_as_large_as_its_files_after_a_cleaning(tmp_path: Path) -> None:
    """Retention by size, and the size that tools show, go by it."""
    case = Compacted(tmp_path)
    with_segments(case, 3)
    before = case.partition.active.log_bytes
    case.clean()
    assert case.partition.active.log_bytes == sum(
        path.stat().st_size for path in case.log.folder.glob("*.log")
    )
    assert case.partition.active.log_bytes < before


def test_truncation_takes_the_clean_part_back(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    case.clean()
    assert case.partition.first_dirty == 6
    case.partition.truncate_to(3, NOW)
    with_segments(case, 3)
    assert cleanable_range(case.partition, NOW).first_dirty == 3


def test_a_cleaning_during_which_the_log_was_truncated_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other records are in place of those that it has read."""
    case = Compacted(tmp_path)
    bases = with_segments(case, 3)
    generation = int(case.log.words[Slot.GENERATION])
    assert case.cleaning.begin(BeginCleaning(3, generation)) is not None
    case.partition.truncate_to(bases[1], NOW)
    assert with_segments(case, 2) == bases
    monkeypatch.setattr(case.partition, "swap", lambda *_: pytest.fail("swapped in"))
    assert not case.cleaning.swap(SwapSegments(3, generation, ((0, 1, 1),), 1, 1, NOW, NOW))
    case.cleaning.end(EndCleaning(3, generation, bases[-1]))
    assert cleanable_range(case.partition, NOW).first_dirty == 0
    case.cleaning.write_checkpoints()
    assert case.cleaning._offsets._due == {}
    assert not case.cleaning._offsets._thread.is_busy
    assert case.cleaning.begin(BeginCleaning(3, generation)) is not None
    case.cleaning.end(EndCleaning(3, generation, bases[-1]))
    assert cleanable_range(case.partition, NOW).first_dirty == bases[-1]


@pytest.mark.parametrize("change", ["repaired", "loaded again", "opened by another process"])
def test_a_cleaning_during_which_a_transaction_index_was_rebuilt_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The index is empty meanwhile. The cleaner that read it took aborted records for committed
    ones: it removed older records of their keys, or the markers."""
    case = Compacted(tmp_path)
    bases = with_segments(case, 3)
    generation = int(case.log.words[Slot.GENERATION])
    assert case.cleaning.begin(BeginCleaning(3, generation)) is not None
    if change == "repaired":
        case.partition.repair(NOW)
    elif change == "loaded again":
        case.partition.abandon(SlotState.RECOVERING)
        case.partition.bring_online(case.log.load(), 0, None, NOW)
    else:
        case.cleaning = case._new_cleaning()
    monkeypatch.setattr(case.partition, "swap", lambda *_: pytest.fail("swapped in"))
    assert not case.cleaning.swap(SwapSegments(3, generation, ((0, 1, 1),), 1, 1, NOW, NOW))
    case.cleaning.end(EndCleaning(3, generation, bases[-1]))
    assert cleanable_range(case.partition, NOW).first_dirty == 0


def test_the_checkpoint_is_kafkas(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    case.clean()
    case.cleaning.close()
    path = tmp_path / files.CLEANER_OFFSETS
    assert path.read_text() == "0\n1\nt 0 6\n"
    assert checkpoint.read_offsets(str(path)) == {("t", 0): 6}


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_cleaning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    (tmp_path / files.CLEANER_OFFSETS).touch()
    (tmp_path / (files.CLEANER_OFFSETS + ".tmp")).mkdir()
    case.clean()
    case.cleaning.close()
    assert case.partition.first_dirty == 6
    assert "cannot write first dirty offsets" in caplog.text


def test_another_generation_is_refused(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    with_segments(case, 3)
    with pytest.raises(KafkaError):
        case.cleaning.begin(BeginCleaning(3, int(case.log.words[Slot.GENERATION]) + 1))


def test_a_log_that_was_checked_too_early_calls_the_cleaner_when_it_is_on_disk(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    calls: list[None] = []
    cleaning = Cleaning(case.cleaning._logs, case.woken.append, call_cleaner=lambda: calls.append(None))
    case.append([(b"a", b"x" * 50)])
    case.roll()
    assert not any(one.due for one in cleaning.cleanable(CleanableLogs()))
    case.partition.durability.flush()
    cleaning.synced(3)
    assert len(calls) == 1
    assert [one.due for one in cleaning.cleanable(CleanableLogs())] == [True]
    cleaning.synced(3)
    assert len(calls) == 1


def calling(case: Compacted) -> tuple[Cleaning, list[None]]:
    """The part of a worker that no cleaner has called yet, and its calls of the cleaner."""
    calls: list[None] = []
    return Cleaning(case.cleaning._logs, case.woken.append, call_cleaner=lambda: calls.append(None)), calls


def configure(case: Compacted, **settings: object) -> None:
    """As after an alter of the topic, or when the log was opened."""
    case.cleaning._logs.configure(case.partition, topic_config(**settings))


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete"])
def test_new_settings_of_a_dirty_log_call_the_cleaner_if_it_is_compacted(tmp_path: Path, policy: str) -> None:
    case = Compacted(tmp_path, cleanup_policy="delete")
    with_segments(case, 1)
    _, calls = calling(case)
    configure(case, cleanup_policy=policy)
    assert len(calls) == ("compact" in policy)
    configure(case, cleanup_policy=policy, max_compaction_lag_ms=DAY)
    assert len(calls) == 2 * ("compact" in policy)


def test_a_log_without_dirt_needs_no_cleaner(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    cleaning, calls = calling(case)
    for _ in range(2):
        configure(case, cleanup_policy="compact", min_cleanable_dirty_ratio=0.1)
        cleaning.synced(3)
        case.append([(b"a", b"x" * 50)])  # in the active segment
    case.roll()
    case.clean()
    configure(case, cleanup_policy="compact", min_cleanable_dirty_ratio=0.2)
    cleaning.synced(3)
    assert calls == []


def test_dirt_that_is_on_disk_calls_a_cleaner_that_has_not_started(tmp_path: Path) -> None:
    """Whether it is due now or later: once it runs, the cleaner checks by itself."""
    case = Compacted(tmp_path, min_compaction_lag_ms=DAY)
    with_segments(case, 1)
    cleaning, calls = calling(case)
    cleaning.synced(3)
    assert len(calls) == 1
    cleaning.cleanable(CleanableLogs())
    with_segments(case, 1)
    cleaning.synced(3)
    assert len(calls) == 1


def test_dirt_of_a_log_that_is_not_compacted_starts_no_cleaner(tmp_path: Path) -> None:
    case = Compacted(tmp_path, cleanup_policy="delete")
    with_segments(case, 1)
    cleaning, calls = calling(case)
    cleaning.synced(3)
    assert calls == []


def test_a_log_is_due_above_its_ratio_and_not_at_it(tmp_path: Path) -> None:
    case = Compacted(tmp_path, min_cleanable_dirty_ratio=1)
    with_segments(case, 2)
    dirt = case.dirt()
    assert dirt is not None
    assert (dirt.ratio, dirt.due) == (1.0, False)


def test_a_log_is_overdue_when_its_oldest_dirty_record_is_older_than_the_lag(tmp_path: Path) -> None:
    case = Compacted(tmp_path, max_compaction_lag_ms=DAY)
    with_segments(case, 1)
    oldest = case.partition.segments.first_timestamp_of(case.partition.segments.closed[0])
    assert not cleanable_range(case.partition, oldest + DAY).overdue
    assert cleanable_range(case.partition, oldest + DAY + 1).overdue


def test_a_log_of_old_records_that_cannot_be_cleaned_is_not_due(tmp_path: Path) -> None:
    case = Compacted(tmp_path, max_compaction_lag_ms=DAY)
    with_segments(case, 1)
    case.clean()
    case.append([(b"t", b"1")], producer=21, transactional=True)
    case.roll()
    case.clock += 2 * DAY
    dirt = case.dirt()
    assert dirt is not None
    assert (dirt.ratio, dirt.due) == (0, False)


def test_a_job_has_the_last_offset_and_epoch_of_each_producer(tmp_path: Path) -> None:
    case = Compacted(tmp_path)
    case.append([(b"a", b"1"), (b"b", b"1")], producer=21)
    case.append([(b"a", b"2")])
    case.roll()
    case.partition.durability.flush()
    job = case.cleaning.begin(BeginCleaning(3, int(case.log.words[Slot.GENERATION])))
    assert job is not None
    assert job.last_by_producer() == {21: (1, 1)}
