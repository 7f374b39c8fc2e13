"""Rows of a comparison as tables: for the terminal and for the page."""

from bench.results import Row
from bench.scenario import Scenario
from bench.scenarios import SCENARIOS
from bench.targets import TARGET_TITLES


def figure(value: float | None) -> str:
    """Three significant digits, thousands separated: 12,300  4.56  0.00123."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"


def goal_text(row: Row) -> str:
    """ "≥ 1.8", "≤ 0.5"; with "itself" when the goal bounds kbroker's figure and not the ratio."""
    if row.measure.goal is None:
        return ""
    sign = "≥" if row.measure.better == "higher" else "≤"
    return f"{sign} {row.measure.goal:g}{' itself' if row.measure.absolute else ''}"


def verdict(met: bool | None) -> str:
    """yes or no; empty for None, if there is no goal."""
    return {True: "yes", False: "no", None: ""}[met]


def cells(row: Row) -> list[str]:
    unit = f", {row.measure.unit}" if row.measure.unit else ""
    ratio = figure(row.ratio)
    if row.ratio is not None and row.spread and row.spread[0] != row.spread[1]:
        ratio += f" ({row.spread[0]:.2g}–{row.spread[1]:.2g})"
    return [
        row.measure.label + unit,
        figure(row.baseline),
        figure(row.subject),
        ratio,
        goal_text(row),
        verdict(row.met),
        "" if row.limit is None else figure(row.limit),
        "" if row.subject_share is None else f"{row.subject_share:.2f}",
    ]


HEAD = ["", TARGET_TITLES["kafka"], TARGET_TITLES["kbroker"], "ratio", "goal", "met", "limit", "share"]
LOOPS_HEAD = [
    "work",
    "the bare loop",
    f"share of {TARGET_TITLES['kafka']}",
    "share of kbroker",
    "goal",
    "met",
]


def text_table(rows: list[Row]) -> str:
    """Aligned columns, one block a scenario."""
    body = [cells(row) for row in rows]
    widths = [max(len(line[column]) for line in [HEAD, *body]) for column in range(len(HEAD))]
    widths[0] += 2

    def line(texts: list[str]) -> str:
        first = texts[0].ljust(widths[0])
        return "  ".join(
            [first, *(text.rjust(width) for text, width in zip(texts[1:], widths[1:], strict=True))]
        )

    lines = [line(HEAD)]
    last = ""
    for row, texts in zip(rows, body, strict=True):
        if row.title != last:
            lines.append(row.title)
            last = row.title
        lines.append(line(["  " + texts[0], *texts[1:]]).rstrip())
    return "\n".join(lines)


def markdown_table(rows: list[Row]) -> str:
    lines = [
        "| " + " | ".join(["work", *HEAD]).replace("|  |", "| measure |") + " |",
        "|" + "---|" * (len(HEAD) + 1),
    ]
    last = ""
    for row in rows:
        title = row.title if row.title != last else ""
        last = row.title
        lines.append("| " + " | ".join([title, *cells(row)]) + " |")
    return "\n".join(lines)


def loops_table(rows: list[Row], scenarios: tuple[Scenario, ...] = SCENARIOS) -> str:
    """The work of the bare loops, and the share of it that both brokers reach; empty without
    any."""
    loops = {scenario.name: scenario.limit.loop for scenario in scenarios if scenario.limit}
    limited = [row for row in rows if row.limit is not None]
    lines = ["| " + " | ".join(LOOPS_HEAD) + " |", "|" + "---|" * len(LOOPS_HEAD)]
    for row in limited:
        shares = [
            "–" if share is None else f"{share:.2f}" for share in (row.baseline_share, row.subject_share)
        ]
        goal = "" if row.share_goal is None else f"≥ {row.share_goal:g}"
        met = verdict(row.share_met)
        name = f"{row.title}: {row.measure.label}"
        lines.append("| " + " | ".join([name, loops[row.scenario], *shares, goal, met]) + " |")
    return "\n".join(lines) if limited else ""
