"""What a turn reads from the page cache is there, whatever other turns wrote since."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bench.size import FULL, QUICK
from bench.turn import Turn
from kbroker.net.fetch.residency import by_cachestat

LOG_BYTES = 3 << 20


def is_cached(log: Path) -> bool:
    with open(log, "rb") as file:
        return by_cachestat(file.fileno(), 0, LOG_BYTES)


def evict(log: Path) -> None:
    """Skips the test where the file system keeps the pages, or where that is not known."""
    try:
        with open(log, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not is_cached(log):
            return
    except OSError:
        pass
    pytest.skip("no page of this file system can be evicted here")


def test_a_cached_topic_is_read_back_into_the_page_cache(tmp_path: Path) -> None:
    logs = [tmp_path / folder / "00000000000000000000.log" for folder in ("read-0", "read-1", "other-0")]
    for log in logs:
        log.parent.mkdir()
        log.write_bytes(os.urandom(LOG_BYTES))
        evict(log)
    target: Any = SimpleNamespace(data_dir=tmp_path)
    no_generator: Any = None
    turn = Turn(target, no_generator, QUICK, 2, kept={"read"})
    filled: list[str] = []
    assert turn.cached_topic("read", 2, filled.append) == "read"
    assert not filled, "an earlier round has filled it"
    assert [is_cached(log) for log in logs] == [True, True, False]


def test_memory_is_touched_before_a_turn_of_full_length(tmp_path: Path) -> None:
    size = 8 << 20
    target: Any = SimpleNamespace(data_dir=tmp_path / "data")
    no_generator: Any = None

    def written(turn: Turn) -> int:
        before = psutil.Process().io_counters().write_chars
        turn.touch_memory(size)
        return psutil.Process().io_counters().write_chars - before

    assert written(Turn(target, no_generator, FULL, 1, set())) >= size
    assert written(Turn(target, no_generator, QUICK, 1, set())) < size
    assert list(tmp_path.iterdir()) == []
