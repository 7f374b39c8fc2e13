import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuning.bench.ticking import ticking
from tuning.bench import disk
from tuning.bench.disk import (
    CHUNK,
    ENOUGH_SYNCS,
    FEWEST_SYNCS,
    STREAMS,
    append,
    measure_disk,
    percentile,
    read_cold,
    sync_times,
)


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(each) for each in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50, 99, 100)
    assert percentile([3.0], 0.01) == 3.0


def test_appends_end_by_bytes_or_by_half_of_the_time(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b", buffering=0) as file:
        written, rate = append(file.fileno(), 1e9, 3 * CHUNK, ticking(1.0))
        assert written == os.fstat(file.fileno()).st_size == 3 * CHUNK
        assert rate == 3 * CHUNK / 3  # the loop looks twice, then the end
        assert append(file.fileno(), 2.0, 100 * CHUNK, ticking(1.0))[0] == CHUNK
        assert append(file.fileno(), 1e9, CHUNK // 4, ticking(1.0))[0] == CHUNK // 4


def test_cold_reads_end_with_the_file_or_with_the_time(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b", buffering=0) as file:
        file.write(bytes(3 * CHUNK))
        os.fsync(file.fileno())
        assert read_cold(file.fileno(), 3 * CHUNK, 1e9, ticking(1.0)) == (3 * CHUNK, CHUNK)
        assert read_cold(file.fileno(), 3 * CHUNK, 0.5, ticking(1.0)) == (CHUNK, CHUNK / 2)


def test_syncs_are_enough_and_no_more(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b", buffering=0) as file:
        assert sync_times(file.fileno(), 0.0, ticking(1.0)) == [1.0] * FEWEST_SYNCS
        assert FEWEST_SYNCS < len(sync_times(file.fileno(), 20.0, ticking(1.0))) < ENOUGH_SYNCS


def test_nothing_is_left(tmp_path: Path) -> None:
    figures = measure_disk(tmp_path, 0.02, 2 * CHUNK)
    assert min(figures.write_rate, figures.cold_read_rate, figures.sync_p50_s) > 0
    assert figures.sync_p50_s <= figures.sync_p99_s
    assert not list(tmp_path.iterdir())


def test_several_threads_share_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[int] = []

    def seen(fd: int, seconds: float, max_bytes: int, clock: Callable[[], float]) -> tuple[int, float]:
        shares.append(max_bytes)
        return append(fd, seconds, max_bytes, clock)

    monkeypatch.setattr(disk, "append", seen)
    measure_disk(tmp_path, 0.05, 8 * CHUNK)
    assert sorted(shares) == [8 * CHUNK // STREAMS] * STREAMS + [8 * CHUNK]


def test_a_full_disk_ends_the_measurement_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> tuple[int, float]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "append", full)
    with pytest.raises(OSError, match="No space left"):
        measure_disk(tmp_path, 0.05, 8 * CHUNK)
    assert not list(tmp_path.iterdir())
