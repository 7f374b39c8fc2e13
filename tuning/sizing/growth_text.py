"""The months of a growing workload as a table for the terminal."""

from collections.abc import Iterator

from tuning.quantity import show_rate
from tuning.sizing.growth import MAX_MONTHS, Growth


def growth_text(growth: Growth) -> str:
    """A row for each month, then the resource that ends first."""
    return "\n".join(_lines(growth))


def conclusion(growth: Growth) -> str:
    """The end of the table in a sentence."""
    if growth.ends is None:
        return f"Nothing ends within {MAX_MONTHS} months."
    last = growth.months[-1]
    when = "today" if last.number == 0 else f"within {last.number} month{'' if last.number == 1 else 's'}"
    return f"{growth.ends.resource} ends first: {when}, at {show_rate(last.write_rate)} written."


def shown(share: float | None) -> str:
    """A share as a percentage."""
    return "?" if share is None else f"{share:.0%}" if share < 100 else ">9999%"


def _lines(growth: Growth) -> Iterator[str]:
    names = list(growth.months[0].shares)
    yield f"Growth of {growth.percent:g}% a month:"
    yield "month       written  " + "  ".join(names)
    for month in growth.months:
        cells = (f"{shown(month.shares[name]):>{len(name)}}" for name in names)
        yield f"{month.number:>5}  {show_rate(month.write_rate):>12}  " + "  ".join(cells)
    yield conclusion(growth)
    if growth.ends is not None:
        yield f"Cheapest change: {growth.ends.change}."
