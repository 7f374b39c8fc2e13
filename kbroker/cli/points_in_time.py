"""Parses times and durations of the command line. Pure: the present time is an argument."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from kbroker.cli.failures import UsageFailed
from kbroker.config.whole_numbers import whole_number

_SIMPLE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ISO = re.compile(
    r"P(?:(?P<w>[0-9]{1,30})W)?(?:(?P<d>[0-9]{1,30})D)?"
    r"(?:T(?:(?P<h>[0-9]{1,30})H)?(?:(?P<m>[0-9]{1,30})M)?(?:(?P<s>[0-9]{1,30}(?:\.[0-9]{1,30})?)S)?)?",
    re.IGNORECASE,
)

_DAY = re.compile(r"(19[7-9][0-9]|2[0-9]{3})(?:(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01]))?")
"""2026 or 20260131: as milliseconds they are in the first hours of 1970."""
MAX_MS = 253_402_300_799_999  # the end of the year 9999
SECONDS = range(1_000_000_000, 10_000_000_000)
"""Seconds since 1970 (`date +%s`) in the years 2001 to 2286. As milliseconds they would be in the
spring of 1970."""
TIME_HELP = (
    "2026-01-31T12:00:00[+01:00] (UTC without a zone), 2026-01-31, milliseconds since 1970, now, or an age such as "
    "90s, 15m, 2h, 7d."
)


def parse_duration_ms(text: str) -> int:
    """`90s`, `1h30m`, `7d` or ISO 8601's `PT1H30M`, `P7D`. Raises UsageFailed."""
    compact = text.strip()
    found = _ISO.fullmatch(compact)
    if found and (parts := [(amount, unit) for unit, amount in found.groupdict().items() if amount]):
        return _sum_ms(text, parts)
    pairs = _SIMPLE.findall(compact)
    if pairs and not _SIMPLE.sub("", compact).strip():
        return _sum_ms(text, pairs)
    raise UsageFailed(f"{text!r} is not a duration: expected 90s, 15m, 1h30m, 7d or PT1H30M")


def _sum_ms(text: str, parts: Iterable[tuple[str, str]]) -> int:
    total = int(sum(float(amount) * _UNIT_MS[unit] for amount, unit in parts))
    if total > MAX_MS:
        raise UsageFailed(f"{text!r} is too long a duration")
    return total


def parse_time_ms(text: str, now_ms: int) -> int:
    """Parse a point in time to ms since 1970: ISO 8601 (UTC without a zone, as Kafka's tools),
    epoch milliseconds, `now`, or an age in the format of parse_duration_ms. Raises UsageFailed."""
    found = _parsed_ms(text, now_ms)
    if not 0 <= found <= MAX_MS:
        raise UsageFailed(f"{text!r} is not a point in time between 1970 and 9999: expected {TIME_HELP}")
    return found


def _parsed_ms(text: str, now_ms: int) -> int:
    word = text.strip()
    if word == "now":
        return now_ms
    if (milliseconds := whole_number(word)) is not None:
        if milliseconds in SECONDS:
            raise UsageFailed(f"{text!r} is a time in seconds: expected milliseconds, such as {word}000")
        if found := _DAY.fullmatch(word):
            day = "-".join(part or "01" for part in found.groups())
            raise UsageFailed(f"{text!r} is a year or a day, not milliseconds: expected {day}")
        return milliseconds
    try:
        when = datetime.fromisoformat(word)
    except ValueError:
        pass
    else:
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    try:
        return now_ms - parse_duration_ms(word.removesuffix("ago").removeprefix("-"))
    except UsageFailed:
        raise UsageFailed(f"{text!r} is not a point in time: expected {TIME_HELP}") from None


def format_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; a dash for None, and milliseconds for a time after the
    year 9999, which producers may send."""
    if timestamp_ms < 0:
        return "-"
    if timestamp_ms > MAX_MS:
        return str(timestamp_ms)
    return (
        datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
