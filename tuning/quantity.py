"""Quantities as people write them: bytes, rates and times. MB is 10^6 bytes, MiB is 2^20."""

import re

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_BYTES = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgtp", 1)
    for ending, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
MOST = 1e18
_STEPS = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_TIMES = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


class WrongQuantity(ValueError):
    """A text that is no quantity; says what is allowed."""


def parse_bytes(text: str) -> int:
    """`200MB`, `1.5GiB`, `4096`. Raises WrongQuantity."""
    return int(_parse(text, _BYTES, "bytes, such as 4096, 200MB or 1.5GiB"))


def parse_rate(text: str) -> float:
    """Bytes a second: `200MB/s`, `200MB`; bits with `Gbit/s`. Raises WrongQuantity."""
    amount = text.strip().removesuffix("/s")
    if amount.lower().endswith("bit"):
        return _parse(amount[:-3], _BYTES, "a rate, such as 10Gbit/s") / 8
    return _parse(amount, _BYTES, "a rate, such as 200MB/s")


def parse_seconds(text: str) -> float:
    """`3d`, `12h`, `90s`, `250ms`; a bare number is seconds. Raises WrongQuantity."""
    return _parse(text, _SECONDS, "a time, such as 3d, 12h, 90s or 250ms")


def _parse(text: str, units: dict[str, int] | dict[str, float], kind: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in units:
        raise WrongQuantity(f"{text!r} is not {kind}")
    found = float(match[1]) * units[match[2].lower()]
    if found > MOST:
        raise WrongQuantity(f"{text!r} is too much to be {kind}")
    return found


def show_bytes(value: float) -> str:
    """Three digits with a decimal unit: `2.15 GB`."""
    unit, step = next(((unit, step) for unit, step in _STEPS if abs(value) >= step), ("B", 1.0))
    return f"{value / step:.3g} {unit}" if abs(value) < 999.5 * step else f"{value / step:.0f} {unit}"


def show_rate(value: float) -> str:
    """Bytes a second."""
    return f"{show_bytes(value)}/s"


def show_seconds(value: float) -> str:
    """`3 d`, `2.5 h`, `40 s`, `0.2 ms`; days at most."""
    if value == float("inf"):
        return "forever"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    unit, step = next((unit, step) for unit, step in _TIMES if value >= step)
    return f"{value / step:.3g} {unit}" if value < 999.5 * step else f"{value / step:,.0f} {unit}"
