"""Counts the memory blocks that slices free. Each slice ends at once, so the speed of the machine
does not change the result."""

import gc
import sys
from typing import Any

import pytest

from kbroker.protocol import slices

ENTRIES = 1_000
MAX_BLOCKS = 500
"""A slice frees at most a part of a collection; each entry has a block or more."""


def changes_by_slice(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The change of the number of memory blocks in each slice from now on.

    The cycles of earlier tests are collected between slices: within one they would count as freed
    by it.
    """
    changes: list[int] = []
    run_slice = slices.Work.run_slice

    def counted(work: slices.Work) -> Any:
        gc.disable()
        try:
            before = sys.getallocatedblocks()
            found = run_slice(work)
            changes.append(sys.getallocatedblocks() - before)
            return found
        finally:
            gc.enable()

    monkeypatch.setattr(slices, "SLICE_NS", 0)
    monkeypatch.setattr(slices, "UNDIVIDED", 64)
    monkeypatch.setattr(slices.Work, "run_slice", counted)
    return changes
