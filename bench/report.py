"""The comparison as a table for the terminal and as docs/benchmarks.md;
`python -m bench.report [RESULTS.json]`.

The page is that of one run: the given one, complete or not, else of the samples that are kept
beside it (`saved_samples.py`)."""

import sys
from pathlib import Path

from bench import saved_samples
from bench.plots import draw
from bench.results import BASELINE, SUBJECT, Results, Row, compare, dear_generators, failures, losses
from bench.scenario import Scenario
from bench.scenarios import SCENARIOS
from bench.schedule import DIFFER, EVERYWHERE
from bench.size import FULL
from bench.tables import loops_table, markdown_table, text_table
from docs.bars import picture
from docs.wrap import wrapped

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
BARS = "bars.svg"
BEGIN, END = "<!-- written by make bench: begin -->", "<!-- written by make bench: end -->"
EXPLANATION = (
    "Medians over the rounds; the ratio is kbroker / Apache Kafka, in parentheses the lowest and the highest "
    "of a round. The limit is what a bare C loop reached that does nothing but what physics asks, in the same turns; "
    "the share is kbroker's of it, 1 where the limit is reached (more where the broker has a second core at work)."
)
METHOD = (
    "Both brokers run on one host, with the same data folder's disk, the same settings of topics and durability, "
    "and the same TCP congestion control; they take turns, and the order changes from turn to turn. The one "
    "whose turn it is not is paused (SIGSTOP): an idle broker wakes up now and then, and delays the other's acks. "
    "Before its first measured turn of a scenario the JVM does the same work, unmeasured: in a full run for at least "
    f"{FULL.jvm_warm_seconds:g} s in the first scenario of its kind, {FULL.jvm_again_seconds:g} s in the others of "
    "that kind (one JVM lives through the whole run), and on while its figure rises. Its numbers of threads are "
    f"the best of several, chosen once. A full run has {EVERYWHERE} rounds, and further ones of the scenarios "
    f"whose first figures differ by more than {DIFFER:.0%} between the rounds of a broker, the most different first, "
    "as long as the time lasts; a median of a row is one of all its rounds. Load generator and broker share the "
    "cores, so a rate is that of both together; where the generator costs more than the broker, the page says so. "
    "Starts, restarts and recoveries are those of a new process, for both. One host and loopback: figures over a "
    "network are others. The samples are in `benchmarks/samples.json`."
)
FRAME = f"""# kbroker beside Apache Kafka

`make bench` rewrites the part between the marks; the rest is written by hand.

{BEGIN}
{END}
"""


def missing(results: Results, scenarios: tuple[Scenario, ...] = SCENARIOS) -> str:
    """The scenarios of which this run has no figure, or those of one round only; empty when it is
    complete."""
    rounds = {
        scenario.name: [
            len(
                {
                    s.round
                    for s in results.samples
                    if (s.scenario, s.target) == (scenario.name, name) and not s.failure
                }
            )
            for name in (BASELINE, SUBJECT)
        ]
        for scenario in scenarios
    }
    titles = {
        scenario.name: results.titles.get(scenario.name) or scenario.title_at(FULL) for scenario in scenarios
    }
    lines = []
    for text, found in (
        ("Not measured in this run", [name for name, (a, b) in rounds.items() if not a and not b]),
        ("One broker only", [name for name, (a, b) in rounds.items() if bool(a) != bool(b)]),
        (
            "One round only, so nothing says how steady they are",
            [n for n, r in rounds.items() if min(r) == 1],
        ),
    ):
        if found:
            lines.append(f"- {text}: {'; '.join(titles[name] for name in found)}.")
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """The number of goals that are met, and the names of the others."""
    judged = [row for row in rows if row.met is not None]
    shares = [row for row in rows if row.share_met is not None]
    if not judged and not shares:
        return "no goal could be judged: figures of one broker only"
    missed = [f"{row.scenario} {row.measure.label}" for row in judged if not row.met]
    missed += [f"{row.scenario} share of the limit" for row in shares if not row.share_met]
    goals = len(judged) + len(shares)
    text = f"{goals - len(missed)} of {goals} goals met"
    return text + (f"; not met: {', '.join(missed)}" if missed else "")


def generator_note(rows: list[Row]) -> str:
    """Names the scenarios in which the load generator cost more than the broker; empty when there
    are none."""
    dear = dear_generators(rows)
    return f"The load generator used more CPU than a broker in: {', '.join(dear)}." if dear else ""


def section(results: Results, rows: list[Row], images: list[str]) -> str:
    """The generated part of the page."""
    facts = {**results.machine, **results.setup}
    behind = losses(rows)
    note, loops, absent = generator_note(rows), loops_table(rows), missing(results)
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
        *([note] if note else []),
        *(["## Shares of the limit", loops] if loops else []),
        *(["## Missing figures", absent] if absent else []),
        *(f"![{Path(image).stem.replace('-', ' ')}]({image})" for image in images),
    ]
    if failed := failures(results.samples):
        parts.append("## Turns without a figure")
        parts.append(
            "\n".join(
                f"- {s.scenario}, {s.target}, round {s.round}: {saved_samples.reason(s.failure)}"
                for s in failed
            )
        )
    parts.append(END)
    return "\n\n".join(parts)


def write_page(run: Results | None = None, page: Path = PAGE) -> list[Path]:
    """Replaces the generated part of the page, keeps the run's samples beside it, draws the plots
    there; returns the files written. Without a run: of the samples kept."""
    samples = saved_samples.file_of(page)
    if run is not None:
        saved_samples.save(samples, run)
    results = saved_samples.load(samples)
    assert results is not None, f"{samples} is missing"
    rows = compare(results.samples, SCENARIOS, results.titles)
    images = draw(rows, page.parent / page.stem)
    names = [image.relative_to(page.parent).as_posix() for image in images]
    text = page.read_text() if page.exists() else FRAME
    if BEGIN not in text or END not in text:
        text = text.rstrip() + f"\n\n{BEGIN}\n{END}\n"
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(before + wrapped(section(results, rows, names)).rstrip("\n") + after)
    bars = page.parent / BARS
    bars.write_text(picture(page.read_text()))
    return [page, samples, *images, bars]


def main(arguments: list[str]) -> int:
    """Write the page, also from an incomplete run. Returns the exit code."""
    samples = saved_samples.file_of(PAGE)
    if len(arguments) > 1 or not (arguments or samples.exists()):
        print("python -m bench.report [RESULTS.json]    one run; none: the one whose samples are kept")
        return 2
    written = write_page(Results.load(Path(arguments[0])) if arguments else None)
    results = saved_samples.load(samples)
    assert results is not None
    print(text_table(compare(results.samples, SCENARIOS, results.titles)))
    print("\n".join(f"wrote {path.relative_to(ROOT)}" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
