"""Two plots of a comparison: every goal's ratio, and the latencies. Left out when matplotlib is not installed."""

import importlib.util
from pathlib import Path
from typing import Any

from bench.results import Row

KAFKA_COLOUR, MET_COLOUR, MISSED_COLOUR = "#9aa5b1", "#2f855a", "#c05621"


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Writes the SVG files; gives those that were drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kbroker", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_ratios(rows, folder / "ratios.svg"), _latencies(rows, folder / "latencies.svg")]
    return [path for path in drawn if path is not None]


def advantage(row: Row) -> float:
    """How many times better kbroker is: the ratio of a rate, its inverse for a cost."""
    assert row.ratio
    return row.ratio if row.measure.better == "higher" else 1 / row.ratio


def _ratios(rows: list[Row], path: Path) -> Path | None:
    judged = [row for row in rows if row.met is not None and not row.measure.absolute and row.ratio]
    if not judged:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.27 * len(judged)), layout="constrained")
    axes = figure.subplots()
    names = [f"{row.title}: {row.measure.label}" for row in judged]
    colours = [MET_COLOUR if row.met else MISSED_COLOUR for row in judged]
    axes.barh(names, [advantage(row) for row in judged], color=colours)
    for index, row in enumerate(judged):
        goal = row.measure.goal or 1.0
        wanted = goal if row.measure.better == "higher" else 1 / goal
        axes.plot([wanted, wanted], [index - 0.4, index + 0.4], color="black", linewidth=1.5)
    axes.axvline(1.0, color=KAFKA_COLOUR, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("times better than Apache Kafka (black mark: the goal)")
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
        (0.2, [row.subject or 0 for row in shown], MET_COLOUR, "kbroker"),
    ):
        axes.barh([place + shift for place in places], values, height=0.4, color=colour, label=label)
    axes.set_yticks(places, [f"{row.title}: {row.measure.label}" for row in shown])
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.legend()
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path
