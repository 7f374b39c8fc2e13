"""Untrusted JSON, without the numbers that JSON does not have: Python's json reads Infinity and
NaN, turns 1e999 into infinity, and writes numbers that no other reader accepts."""

import json
import math
from typing import Any


def loads(data: str | bytes) -> Any:
    """Raises ValueError, and RecursionError for JSON that is nested too deeply."""
    return json.loads(data, parse_constant=_no_number, parse_float=_finite)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number
