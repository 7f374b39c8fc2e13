"""Formats amounts for people. Pure."""

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(value: float | None) -> str:
    """An amount of bytes with at most three digits, in a fitting unit; a dash for None."""
    if value is None:
        return "-"
    unit = 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {UNITS[unit]}" if unit and value < 99.95 else f"{value:.0f} {UNITS[unit]}"
