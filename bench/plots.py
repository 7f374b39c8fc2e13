"""Two plots of a comparison: all ratios, and the latencies. Left out if matplotlib is not
installed."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.results import GENERATOR_KEYS, Row, advantage

KAFKA_COLOUR, AHEAD_COLOUR, BEHIND_COLOUR = "#9aa5b1", "#2f855a", "#c05621"
TICKS = tuple(step * 10.0**exponent for exponent in range(-2, 5) for step in (1, 2, 5))


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Write the SVG files; returns the drawn ones."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kbroker", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_ratios(rows, folder / "ratios.svg"), _latencies(rows, folder / "latencies.svg")]
    return [path for path in drawn if path is not None]


def _ratios(rows: list[Row], path: Path) -> Path | None:
    """One bar for every figure of both brokers, the largest loss at the top."""
    pairs = sorted(
        (
            (better, row)
            for row in rows
            if row.measure.key not in GENERATOR_KEYS and (better := advantage(row))
        ),
        key=lambda pair: pair[0],
    )
    if not pairs:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.4 + 0.24 * len(pairs)), layout="constrained")
    axes = figure.subplots()
    axes.set_title("kbroker beside Apache Kafka: times better (right of 1x) or worse (left of it)")
    values = [better for better, _ in pairs]
    names = [f"{row.title}: {row.measure.label}" for _, row in pairs]
    colours = [AHEAD_COLOUR if value >= 1 else BEHIND_COLOUR for value in values]
    bars = axes.barh(names, [value - 1 for value in values], left=1, color=colours)
    axes.bar_label(bars, [f"{value:.2g}x" for value in values], padding=3)
    axes.axvline(1.0, color=KAFKA_COLOUR, linewidth=1)
    _scale(axes, [*values, 1], "x")
    axes.invert_yaxis()
    return _save(figure, path)


def _latencies(rows: list[Row], path: Path) -> Path | None:
    shown = [
        row for row in rows if row.measure.unit == "ms" and row.measure.key.endswith(("p50_ms", "p99_ms"))
    ]
    if not shown:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.35 * len(shown)), layout="constrained")
    axes = figure.subplots()
    places = list(range(len(shown)))
    for shift, values, colour, label in (
        (-0.2, [row.baseline or 0 for row in shown], KAFKA_COLOUR, "Apache Kafka"),
        (0.2, [row.subject or 0 for row in shown], AHEAD_COLOUR, "kbroker"),
    ):
        bars = axes.barh([place + shift for place in places], values, height=0.4, color=colour, label=label)
        axes.bar_label(bars, [f"{value:.2g}" if value else "" for value in values], padding=3, fontsize=7)
    axes.set_yticks(places, [f"{row.title}: {row.measure.label}" for row in shown])
    _scale(axes, [value for row in shown for value in (row.baseline, row.subject) if value], " ms")
    axes.invert_yaxis()
    axes.set_title("Latencies in milliseconds (less is better)")
    axes.legend()
    return _save(figure, path)


def _scale(axes: Any, values: Sequence[float], unit: str) -> None:
    """A logarithmic axis over the values, from tick to tick; ticks are at 1, 2 and 5 of each
    decade."""
    from matplotlib.ticker import NullLocator

    low = max((tick for tick in TICKS if tick < min(values, default=1) / 1.2), default=TICKS[0])
    high = min((tick for tick in TICKS if tick > max(values, default=1) * 1.2), default=TICKS[-1])
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(ticks, [f"{tick:g}{unit}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path
