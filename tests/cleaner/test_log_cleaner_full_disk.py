"""A cleaned segment that finds no room for its swap."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.partition import segment_swap
from kbroker.ipc.layout import Slot
from tests.cleaner.compacted import Compacted


def test_a_log_whose_segments_find_no_room_for_a_swap_can_be_read_and_cleaned_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot stayed marked as changing, and the result was swapped in after the next death."""
    case = Compacted(tmp_path)
    for n in range(20):
        case.append([(b"k%d" % (k % 7), b"%d" % n * 20) for k in range(n % 5 + 1)])
    case.roll()
    records = case.records()
    failed: list[Any] = []
    logs: Any = case.cleaning._logs
    logs.failures = SimpleNamespace(log_failed=lambda *each: failed.append(each))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(segment_swap, "_link", full)
        with pytest.raises(OSError, match="full"):
            case.clean()
    assert len(failed) == 1
    assert int(case.log.words[Slot.SEGMENTS_VERSION]) % 2 == 0
    assert not [path for path in case.log.folder.iterdir() if path.suffix in (".swap", ".cleaned")]
    assert case.records() == records
    assert case.clean()
    case.reopen()
