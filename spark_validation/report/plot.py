"""Line plots as inline SVG."""

from html import escape

import numpy as np
from numpy.typing import NDArray

from spark_validation.summaries import Series

WIDTH, HEIGHT = 880, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 10, 24
COLOURS = ("#2563eb", "#dc2626", "#d97706", "#059669", "#7c3aed", "#0891b2")
Mark = tuple[float, float, str]  # begin and end in seconds, what it is


def nice(value: float) -> str:
    """A number for an axis: three digits and a unit prefix."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def plot(series: Series, marks: list[Mark]) -> str:
    """One plot; marks are shaded."""
    values = np.concatenate([line[np.isfinite(line)] for line in series.lines.values()] or [np.zeros(1)])
    logarithmic = series.unit == "ms" and len(values) > 0 and values.max(initial=0) > 0
    top = float(values.max(initial=1.0)) or 1.0
    bottom = max(float(values[values > 0].min(initial=top)), top / 1e6) if logarithmic else 0.0
    longest = float(series.seconds[-1]) or 1.0

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(seconds / longest, 0), 1)

    def y(value: float) -> float:
        share = value / top
        if logarithmic:
            share = np.log(max(value, bottom) / bottom) / max(np.log(top / bottom), 1e-9)
        return float(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(series.title)}</title>']
    for begin, end, what in marks:
        wide = max(x(end) - x(begin), 1.5)
        parts.append(
            f'<rect class="mark" x="{x(begin):.1f}" y="{TOP}" width="{wide:.1f}" height="{HEIGHT - TOP - BOTTOM}">'
            f"<title>{escape(what)}</title></rect>"
        )
    ticks = np.geomspace(bottom, top, 5) if logarithmic else np.linspace(0, top, 5)
    for tick in ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{nice(float(tick))}</text>'
        )
    for seconds in np.linspace(0, longest, 7):
        parts.append(
            f'<text x="{x(seconds):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{seconds:.0f} s</text>'
        )
    for number, line in enumerate(series.lines.values()):
        points = path(series.seconds, line, x, y)
        parts.append(f'<path d="{points}" stroke="{COLOURS[number % len(COLOURS)]}"/>')
    parts.append("</svg>")
    legend = "".join(
        f'<span style="color:{COLOURS[n % len(COLOURS)]}">■ {escape(name)}</span>'
        for n, name in enumerate(series.lines)
    )
    return f"<figure><figcaption>{escape(series.title)} ({series.unit}) {legend}</figcaption>{''.join(parts)}</figure>"


def path(seconds: NDArray[np.float64], line: NDArray[np.float64], x, y) -> str:  # type: ignore[no-untyped-def]
    """SVG path that breaks where there are no values."""
    steps, pen_up = [], True
    for second, value in zip(seconds, line, strict=True):
        if not np.isfinite(value):
            pen_up = True
            continue
        steps.append(f"{'M' if pen_up else 'L'}{x(second):.1f} {y(value):.1f}")
        pen_up = False
    return " ".join(steps)
