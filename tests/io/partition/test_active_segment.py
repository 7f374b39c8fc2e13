"""The active segment's state in its append row: what readers, syncs and repairs go by."""

import os
import random
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.files.segment import ActiveState
from kbroker.io.partition.active_segment import ActiveSegment
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import batch


def loaded(folder: Path, has_aborted: bool = False) -> ActiveSegment:
    made = ActiveSegment(AppendRow.row(), str(folder), 0)
    made.load(ActiveState(3, 0, 8), -1, has_aborted)
    return made


@pytest.mark.parametrize(("has_aborted", "last"), [(True, 7), (False, -1)])
def test_an_aborted_transaction_of_a_loaded_log_may_end_anywhere_in_it(
    tmp_path: Path, has_aborted: bool, last: int
) -> None:
    """Readers of committed records look for aborted ones up to there."""
    assert loaded(tmp_path, has_aborted).last_aborted == last


def test_the_last_aborted_offset_never_goes_back(tmp_path: Path) -> None:
    segment = loaded(tmp_path)
    for offset, last in ((5, 5), (4, 5), (6, 6)):
        segment.note_aborted(offset)
        assert segment.last_aborted == last


@pytest.mark.parametrize(
    ("rolled", "names", "plain"), [(False, False, 1), (True, False, 0), (False, True, 0), (True, True, 0)]
)
def test_a_sync_of_the_log_file_is_enough_only_when_nothing_else_waits(
    tmp_path: Path, rolled: bool, names: bool, plain: int
) -> None:
    segment = loaded(tmp_path)
    segment.set_unsynced(rolled, names)
    assert (segment.row[AppendRow.ROLLED], segment.row[AppendRow.PLAIN_SYNC]) == (rolled, plain)


def test_a_failed_append_leaves_nothing_in_the_log_and_its_indexes(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(index_interval_bytes=0))
    log.open()
    for n in range(3):
        log.append(batch(0, [b"v"], [NOW + n]))
    files = log.partition.active.files
    fds = (files.log, files.index, files.time_index)
    whole = [os.fstat(fd).st_size for fd in fds]
    assert min(whole) > 0
    for fd, size in zip(fds, whole, strict=True):
        os.pwrite(fd, b"\1" * 24, size)
    log.partition.repair(NOW)
    assert [os.fstat(fd).st_size for fd in fds] == whole


def test_a_segment_without_timestamps_is_as_old_as_its_last_append(tmp_path: Path) -> None:
    segment = loaded(tmp_path)
    segment.start(topic_config(), 0, NOW)
    assert segment.largest_timestamp == NOW
    segment.row[AppendRow.LAST_APPEND_MS] = NOW + 5
    assert segment.largest_timestamp == NOW + 5
    segment.row[AppendRow.MAX_TIMESTAMP] = 0
    assert segment.largest_timestamp == 0


def test_the_jitter_is_less_than_the_age_at_which_a_segment_rolls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "randrange", lambda most: most - 1)
    segment = loaded(tmp_path)
    segment.start(topic_config(segment_ms=100, segment_jitter_ms=1000), 0, NOW)
    assert (segment.row[AppendRow.SEGMENT_MS], segment.row[AppendRow.ROLL_AT_MS]) == (1, NOW + 1)
    segment.start(topic_config(segment_ms=100, segment_jitter_ms=40), 0, NOW)
    assert (segment.row[AppendRow.SEGMENT_MS], segment.row[AppendRow.ROLL_AT_MS]) == (61, NOW + 61)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("index_interval_bytes", {AppendRow.INDEX_INTERVAL: 700}),
        ("segment_bytes", {AppendRow.SEGMENT_BYTES: 700}),
        ("segment_index_bytes", {AppendRow.INDEX_LIMIT: 700}),
        ("segment_ms", {AppendRow.SEGMENT_MS: 700, AppendRow.ROLL_AT_MS: NOW + 700}),
        ("flush_messages", {AppendRow.FLUSH_RECORDS: 700}),
        ("flush_ms", {AppendRow.FLUSH_MS: 700}),
    ],
)
def test_each_limit_of_the_append_path_is_that_of_its_setting(
    tmp_path: Path, setting: str, words: dict[int, int]
) -> None:
    segment = loaded(tmp_path)
    segment.start(topic_config(), 0, NOW)
    before = segment.row.copy()
    segment.configure(topic_config(**{setting: 700}))
    assert {n: int(segment.row[n]) for n in range(AppendRow.WORDS) if segment.row[n] != before[n]} == words
