"""The recovery point of a log that was just loaded."""

from pathlib import Path

import pytest

from kbroker.log import files
from tests.io.recovery.torn_log import appended, filled, load
from tests.syncs import Syncs


@pytest.mark.parametrize("recovery_point", [0, 20])
def test_without_write_caching_all_that_recovery_has_read_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovery_point: int
) -> None:
    """It is served as durable at once."""
    log = filled(tmp_path, write_caching=False)
    bases = [segment.base_offset for segment in files.list_segments(str(log.folder))]
    syncs = Syncs(log.folder, monkeypatch)
    loaded = load(log, recovery_point=recovery_point)
    assert loaded.recovery_point == loaded.active.next_offset == 20
    suffixes = (files.LOG, files.INDEX, files.TIME_INDEX)
    scanned = bases if recovery_point == 0 else bases[-1:]
    expected = {files.file_name(base, suffix) for base in scanned for suffix in suffixes}
    assert expected | {"."} <= set(syncs.taken())


def test_with_write_caching_recovery_leaves_the_recovery_point(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert load(log, recovery_point=11).recovery_point == 11
    assert load(log, recovery_point=99).recovery_point == 20
    assert load(log, clean=True).recovery_point == 20


def test_after_a_clean_stop_the_active_segment_is_on_disk_and_no_other_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = appended(tmp_path, write_caching=False)
    log.partition.close()
    *others, active = (segment.base_offset for segment in files.list_segments(str(log.folder)))
    assert others
    syncs = Syncs(log.folder, monkeypatch)
    assert load(log, clean=True).recovery_point == 20
    synced = set(syncs.taken())
    suffixes = (files.LOG, files.INDEX, files.TIME_INDEX)
    assert {files.file_name(active, suffix) for suffix in suffixes} | {"."} <= synced
    assert not {files.file_name(base, suffix) for base in others for suffix in suffixes} & synced
