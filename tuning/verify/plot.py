"""Pictures of the reports. The turns of one figure: a dot for each turn, a line at each side's
median. Shares over months: a line for each resource, with its name at the end.

Plain SVG in the page: it needs no library, no script and no other file.
"""

import statistics
from collections.abc import Mapping, Sequence
from html import escape

from tuning.verify.decision import Comparison

WIDTH, LEFT, RIGHT, TOP, ROW = 620, 70, 20, 16, 24
HEIGHT = TOP + 2 * ROW + 22
CHART, NAMES, LINE = 260, 150, 14
"""Sizes of the plot of lines: its height, the width of the names, the height of a name."""


def plot(comparison: Comparison) -> str:
    """Two rows, without and with the change, on one scale."""
    values = (*comparison.without, *comparison.changed)
    low, high = min(values), max(values)
    room = (high - low) or abs(high) or 1.0
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(comparison.figure.title)}">',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{TOP + 2 * ROW}" y2="{TOP + 2 * ROW}"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        label = comparison.figure.show(low + share * room)
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        parts.append(
            f'<text class="note" x="{x:.0f}" y="{HEIGHT - 4}" text-anchor="{anchor}">{escape(label)}</text>'
        )
    for row, (name, side) in enumerate((("without", comparison.without), ("with", comparison.changed))):
        y = TOP + row * ROW + ROW // 2
        parts.append(f'<text x="0" y="{y + 4}">{name}</text>')
        parts += [_dot(name, _place(value, low, room), y, comparison.figure.show(value)) for value in side]
        if side:
            x = _place(statistics.median(side), low, room)
            parts.append(f'<line class="{name}" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9}" y2="{y + 9}"/>')
    return "\n".join((*parts, "</svg>"))


def lines_plot(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Shares by step, from 0 to 100 % or more; what is above 100 % is cut just above it."""
    steps = max(len(values) for values in series.values()) - 1
    bottom, right = CHART - 24, WIDTH - NAMES
    top = max(1.0, min(1.15, max(max(values) for values in series.values())))

    def at(step: int, share: float) -> tuple[float, float]:
        x = LEFT + step / max(1, steps) * (right - LEFT)
        return x, bottom - min(share, top) / top * (bottom - TOP)

    parts = [f'<svg viewBox="0 0 {WIDTH} {CHART}" role="img" aria-label="{escape(title)}">']
    for share in (0.0, 0.5, 1.0):
        y = at(0, share)[1]
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="note" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for step in sorted({0, steps // 2, steps}):
        x = at(step, 0.0)[0]
        parts.append(
            f'<text class="note" x="{x:.1f}" y="{CHART - 6}" text-anchor="middle">month {step}</text>'
        )
    free = float(CHART)
    for name, values in sorted(series.items(), key=lambda each: at(0, each[1][-1])[1], reverse=True):
        points = [at(step, share) for step, share in enumerate(values)]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        kind = "with" if max(values) > 1 else "without"
        parts.append(f'<polyline class="{kind}" points="{drawn}" style="fill:none;stroke-width:2"/>')
        free = min(points[-1][1] + 4, free - LINE)  # names do not overlap
        parts.append(
            f'<text x="{points[-1][0] + 8:.1f}" y="{free:.1f}">{escape(name)} {values[-1]:.0%}</text>'
        )
    return "\n".join((*parts, "</svg>"))


def _place(value: float, low: float, room: float) -> float:
    return LEFT + (value - low) / room * (WIDTH - LEFT - RIGHT)


def _dot(kind: str, x: float, y: int, title: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4"><title>{escape(title)}</title></circle>'
