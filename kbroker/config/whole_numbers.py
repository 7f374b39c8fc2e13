"""Numbers and durations in texts of others: `int` takes digits of all scripts, and fails on
others."""

import re
from typing import Final

from kbroker.config.setting import LONG_MAX

_DIGITS: Final = len(str(LONG_MAX))
_DURATION: Final = re.compile(
    r"P(?:\+?([0-9]+)D)?(?:T(?:\+?([0-9]+)H)?(?:\+?([0-9]+)M)?(?:\+?([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)


def whole_number(text: str, maximum: int = LONG_MAX) -> int | None:
    """The number that ASCII digits write; None for any other text, and above `maximum`."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > _DIGITS or int(digits) > maximum:
        return None
    return int(digits)


def duration_ms(text: str) -> int | None:
    """Milliseconds of an ISO-8601 duration of days to seconds (java.time.Duration); None for any
    other text, and for more seconds than Java has."""
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "PpTt":
        return None
    parts = [whole_number(part or "0") for part in found.groups()[:4]]
    days, hours, minutes, seconds = (-1 if part is None else part for part in parts)
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if None in parts or total > LONG_MAX:
        return None
    return total * 1000 + int((found[5] or "").ljust(9, "0")) // 1_000_000
