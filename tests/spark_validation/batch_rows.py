"""Rows of batches made by hand, as the judge's reader gives them."""

import numpy as np

from spark_validation.segments import layout
from spark_validation.segments.layout import Fault, Words

PRODUCER = 7
DATA, MARKER = layout.TRANSACTIONAL, layout.TRANSACTIONAL | layout.CONTROL


def row(base: int, last: int | None = None, **fields: int) -> list[int]:
    """A batch of 100 bytes at 100 times its offset, of PRODUCER; fields: other columns of the
    layout."""
    values = np.zeros(layout.BATCH_COLUMNS, np.int64)
    values[[layout.BASE_OFFSET, layout.POSITION, layout.SIZE]] = base, base * 100, 100
    values[layout.LAST_OFFSET] = base if last is None else last
    values[layout.RECORD_COUNT] = values[layout.LAST_OFFSET] - base + 1
    values[[layout.PRODUCER_ID, layout.CONTROL_TYPE, layout.FAULT]] = PRODUCER, -1, Fault.SOUND
    for name, value in fields.items():
        values[getattr(layout, name)] = value
    return [int(value) for value in values]


def rows(*lines: list[int]) -> Words:
    return np.array(lines, np.int64).reshape(-1, layout.BATCH_COLUMNS)
