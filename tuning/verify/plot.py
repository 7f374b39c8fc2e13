"""The turns of one figure as a small picture: a dot for each turn, a line at each side's median.

Plain SVG in the page: it needs no library, no script and no other file.
"""

import statistics
from html import escape

from tuning.verify.decision import Comparison

WIDTH, LEFT, RIGHT, TOP, ROW = 620, 70, 20, 16, 24
HEIGHT = TOP + 2 * ROW + 22


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


def _place(value: float, low: float, room: float) -> float:
    return LEFT + (value - low) / room * (WIDTH - LEFT - RIGHT)


def _dot(kind: str, x: float, y: int, title: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4"><title>{escape(title)}</title></circle>'
