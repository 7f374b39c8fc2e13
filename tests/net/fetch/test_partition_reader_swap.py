"""Reads while compaction replaces segments: read_committed fetches wait, others continue."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kbroker.ipc.layout import Slot
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.net.fetch.fetch_session import FetchedPartition
from kbroker.net.fetch.partition_reader import Limits, PartitionReader
from kbroker.net.rows import Isolation
from kbroker.protocol.errors import ErrorCode
from tests.cleaner.compacted import Compacted


def reader_of(case: Compacted) -> PartitionReader:
    slots = Slot.table(4)
    slots[3] = case.log.words
    case.partition.published.words = case.log.words = slots[3]
    image = TopicImage("t", b"", False, (PartitionImage(0, 3, 0, case.partition.folder),))
    return PartitionReader(
        SimpleNamespace(slots=slots),
        SimpleNamespace(by_id={}, by_name={"t": image}),
        SimpleNamespace(note=lambda *_: None),
        LogDirErrors(["/nowhere"], SimpleNamespace(log_dir_errors=np.zeros(1, np.int64))),
    )


@pytest.mark.parametrize("isolation", [0, Isolation.READ_COMMITTED])
def test_read_committed_finds_nothing_until_the_files_are_in_place(tmp_path: Path, isolation: int) -> None:
    case = Compacted(tmp_path)
    for n in range(20):
        case.append([(b"key%d" % (n % 3), b"aborted" * 9)], producer=21, transactional=True)
        case.end(21, commit=False)
        case.append([(b"key%d" % (n % 3), b"%d" % n * 30)])
    case.roll()
    reader = reader_of(case)
    expected = FetchedPartition("t", bytes(16), 0, 0, 1 << 20, -1, -1)
    limits = Limits(1 << 20, True, isolation)
    before = reader.read(expected, limits)
    assert before.error is ErrorCode.NONE
    assert before.length > 0
    assert bool(before.aborted) == (isolation == Isolation.READ_COMMITTED)
    seen: list[tuple[int, int]] = []

    def look(_: str) -> None:
        reading = reader.read(expected, limits)
        assert reading.error is ErrorCode.NONE
        seen.append((int(case.log.words[Slot.SEGMENTS_VERSION]) % 2, reading.length))

    case._step = look  # type: ignore[method-assign, assignment]
    case.clean()
    while_swapping = [length for odd, length in seen if odd]
    assert len(while_swapping) > 5
    assert all(length == 0 for length in while_swapping) == (isolation == Isolation.READ_COMMITTED)
    beside = [length for odd, length in seen if not odd]
    assert beside
    assert min(beside) > 0
    assert 0 < reader.read(expected, limits).length < before.length
