"""Parses options to fields of a workload, and checks the bounds of numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tuning.quantity import WrongQuantity, parse_bytes, parse_rate, parse_seconds

Quantity = TypeVar("Quantity")
MIN_RATE = 1.0
MAX_COUNT = 10**9
BOUNDS: dict[str, tuple[float, float]] = {
    "partitions": (1, MAX_COUNT),
    "consumers": (0, MAX_COUNT),
    "lagging": (0, MAX_COUNT),
    "copies": (1, 1000),
    "connections": (0, MAX_COUNT),
    "rtt": (0, 60_000),
    "cores": (0.1, 100_000),
    "seconds": (1, 600),
    "minutes": (1, 1440),
    "watch": (0, 600),
    "growth": (0.01, 1000),
}
FOR_EVER = ("forever", "inf", "-1")


def bounded(option: str, value: float | None) -> float | None:
    """The value. Raises WrongQuantity if it is out of BOUNDS, as nan always is."""
    low, high = BOUNDS[option]
    if value is not None and not low <= value <= high:
        raise WrongQuantity(f"--{option} must be from {low:g} to {high:g}, not {value:g}")
    return value


def refuse_empty(dirs: Sequence[str] | None) -> None:
    """Raises WrongQuantity for an empty log directory, which would be the current one."""
    if "" in (dirs or ()):
        raise WrongQuantity("--dir is empty; is a shell variable not set?")


def check_writable(file: Path | None) -> None:
    """Checks the file of a result before it is measured. Raises OSError."""
    if file is None:
        return
    existed = file.exists()
    file.open("ab").close()
    if not existed:
        file.unlink()


def amount_of(option: str, text: str | None) -> int | None:
    """Bytes, one at least. Raises WrongQuantity."""
    return None if text is None else int(_some(option, read(option, parse_bytes, text)))


def rate_of(option: str, text: str | None) -> float | None:
    """Bytes a second, one at least. Raises WrongQuantity."""
    return None if text is None else _some(option, read(option, parse_rate, text))


def speed_of(option: str, text: str | None) -> float | None:
    """Bytes a second of a network: like `rate_of`, but a bare number is bits a second. Raises
    WrongQuantity."""
    is_bare = text is not None and text.strip().replace(".", "", 1).isdigit()
    return rate_of(option, f"{text}bit/s" if is_bare else text)


def read(option: str, parse: Callable[[str], Quantity], text: str) -> Quantity:
    """The quantity. Raises WrongQuantity, which names the option."""
    try:
        return parse(text)
    except WrongQuantity as wrong:
        raise WrongQuantity(f"--{option}: {wrong}") from None


def _some(option: str, value: float) -> float:
    if value < MIN_RATE:
        raise WrongQuantity(f"--{option} must be more than nothing")
    return value


def percent_of(option: str, text: str | None) -> float | None:
    """`5%` or `5`. Raises WrongQuantity."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        raise WrongQuantity(f"--{option}: {text!r} is not a percentage, such as 5%") from None
    return bounded(option, value)


def retention_of(option: str, text: str | None) -> float | None:
    """Seconds; inf keeps forever. Raises WrongQuantity."""
    if text is None:
        return None
    return math.inf if text.lower() in FOR_EVER else read(option, parse_seconds, text)


def workload_of_options(given: Mapping[str, object]) -> dict[str, object]:
    """Fields of Workload; None for missing options. Raises WrongQuantity."""

    def text(name: str) -> str | None:
        value = given[name]
        return None if value is None else str(value)

    def number(name: str) -> float | None:
        return bounded(name, given[name])  # type: ignore[arg-type]

    lag = text("lag")
    return {
        "write_rate": rate_of("rate", text("rate")),
        "retention_s": retention_of("retention", text("retention")),
        "partitions": number("partitions"),
        "groups": number("consumers"),
        "lagging_groups": number("lagging"),
        "lag_s": None if lag is None else read("lag", parse_seconds, lag),
        "copies": number("copies"),
        "connections": number("connections"),
        "batch_bytes": amount_of("batch", text("batch")),
        "remote_clients": given["remote"],
        "rtt_ms": number("rtt"),
        "durable": given["durable"],
        "tls": given["tls"],
    }
