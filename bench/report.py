"""The comparison as a table for the terminal and as docs/benchmarks.md; `python -m bench.report [RESULTS.json ...]`.

The page is made from the samples that are kept beside it (`kept.py`) and the given ones, of which the last counts."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench import kept
from bench.plots import draw
from bench.results import Results, Row, compare, dear_generators, failures, losses
from bench.scenarios import SCENARIOS
from bench.targets import TARGET_TITLES
from docs.wrap import wrapped

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by make bench: begin -->", "<!-- written by make bench: end -->"
EXPLANATION = (
    "Medians over the rounds; the ratio is kbroker / Apache Kafka, in parentheses the lowest and the highest "
    "of a round."
)
METHOD = (
    "Both brokers run on one host, with the same data folder's disk, the same settings of topics and durability, "
    "and the same TCP congestion control; they take turns, and the order changes from turn to turn. Before its "
    "first measured turn of a scenario the JVM does the same work, unmeasured. Load generator and broker share "
    "the cores, so a rate is that of both together; where the generator costs more than the broker, the table says "
    "so. Starts, restarts and recoveries are those of a new process, for both. One host and loopback: figures "
    "over a network are others. The samples are in `benchmarks/samples.json`."
)
FRAME = f"""# kbroker beside Apache Kafka

`make bench` writes the part between the marks anew; what stands outside of them is written by hand.

{BEGIN}
{END}
"""


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


def verdict(row: Row) -> str:
    return {True: "yes", False: "no", None: ""}[row.met]


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
        verdict(row),
    ]


HEAD = ["", TARGET_TITLES["kafka"], TARGET_TITLES["kbroker"], "ratio", "goal", "met"]


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


def summary(rows: list[Row]) -> str:
    """How many goals are met, and which are not."""
    judged = [row for row in rows if row.met is not None]
    if not judged:
        return "no goal could be judged: figures of one broker only"
    missed = [f"{row.scenario} {row.measure.label}" for row in judged if not row.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} goals met"
    return text + (f"; not met: {', '.join(missed)}" if missed else "")


def generator_note(rows: list[Row]) -> str:
    """Names the scenarios in which the load generator cost more than the broker; empty when there are none."""
    dear = dear_generators(rows)
    return f"The load generator used more CPU than a broker in: {', '.join(dear)}." if dear else ""


def section(results: Results, rows: list[Row], images: list[str]) -> str:
    """The generated part of the page."""
    facts = {**results.machine, **results.setup}
    behind = losses(rows)
    parts = [
        BEGIN,
        "## Method and limits",
        METHOD,
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Where kbroker is behind",
        markdown_table(behind) if behind else "In no figure of this run.",
        "## All figures",
        f"{EXPLANATION} {summary(rows)}.",
        markdown_table(rows),
        *([generator_note(rows)] if generator_note(rows) else []),
        *(f"![{Path(image).stem.replace('-', ' ')}]({image})" for image in images),
    ]
    if failed := failures(results.samples):
        parts.append("## Turns without a figure")
        parts.append(
            "\n".join(
                f"- {s.scenario}, {s.target}, round {s.round}: {s.failure.splitlines()[0]}" for s in failed
            )
        )
    parts.append(END)
    return "\n\n".join(parts)


def write_page(runs: Sequence[Results], page: Path = PAGE) -> list[Path]:
    """Joins runs with those that are kept, keeps them, replaces the generated part of the page, draws the plots beside
    it; gives the files written."""
    samples = kept.file_of(page)
    runs = kept.newest([*kept.load(samples), *runs])
    kept.save(samples, runs)
    results = Results.join(runs)
    rows = compare(results.samples, SCENARIOS, results.titles)
    images = draw(rows, page.parent / page.stem)
    names = [image.relative_to(page.parent).as_posix() for image in images]
    text = page.read_text() if page.exists() else FRAME
    if BEGIN not in text or END not in text:
        text = text.rstrip() + f"\n\n{BEGIN}\n{END}\n"
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(before + wrapped(section(results, rows, names)).rstrip("\n") + after)
    return [page, samples, *images]


def main(arguments: list[str]) -> int:
    runs = [Results.load(Path(name)) for name in arguments]
    samples = kept.file_of(PAGE)
    if not runs and not samples.exists():
        print("python -m bench.report RESULTS.json ...    of a scenario in several of them, the last counts")
        return 2
    written = write_page(runs)
    results = Results.join(kept.load(samples))
    print(text_table(compare(results.samples, SCENARIOS, results.titles)))
    print("\n".join(f"wrote {path.relative_to(ROOT)}" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
