"""Columns of recorded histories."""

from typing import Any

import numpy as np


def columns(first: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(first, first + rows)
    return {
        "consumer": 1,
        "group": "g",
        "assignment": 0,
        "topic": "t",
        "partition": numbers % 3,
        "offset": numbers,
        "error": np.zeros(rows, np.int16),
        "asked_ns": numbers,
        "answered_ns": numbers,
        "transaction": -1,
        "producer": -1,
    }
