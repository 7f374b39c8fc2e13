"""The report as one HTML file with its plots: no script, nothing from elsewhere."""

from collections.abc import Iterator
from html import escape

from tuning.verify.decision import FEWEST_TURNS, HARMS, HELPS, MIN_CHANGE, Comparison
from tuning.verify.plot import plot
from tuning.verify.report import Report, spread
from tuning.verify.run import Outcome

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #1f2933; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25em 1em .25em 0; }
th { border-bottom: 1px solid #9aa5b1; } figure { margin: 1.2em 0; } svg { width: 100%; max-width: 620px; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; } .note { opacity: .75; }
.axis { stroke: #9aa5b1; } circle { opacity: .7; } line.without, line.with { stroke-width: 2.5; }
.without { fill: #7b8794; stroke: #7b8794; } .with { fill: #2563eb; stroke: #2563eb; }
.better { color: #256d3f; font-weight: 600; } .worse { color: #a8341a; font-weight: 600; }
code { background: #eef1f4; padding: .1em .3em; border-radius: 3px; }
@media (prefers-color-scheme: dark) {
  body { background: #111827; color: #e4e7eb; } code { background: #26303f; }
  .with { fill: #60a5fa; stroke: #60a5fa; } .better { color: #6ee7a0; } .worse { color: #fca58b; }
}
"""


def page(report: Report) -> str:
    """The whole file."""
    return "\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>kbroker tune verify</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<h1>kbroker tune verify</h1>\n<p><strong>{escape(report.conclusion)}</strong></p>"
    where = f"{escape(report.host)}, {escape(report.begun)}, {report.seconds:.0f} s"
    yield f"<p>{where}. Each turn: {escape(report.load)}</p>"
    for outcome in report.outcomes:
        yield from _section(outcome, outcome in report.kept)
    if report.omitted:
        yield "<h2>Not tried</h2>\n<ul>"
        yield from (
            f"<li><code>{escape(each.what)}</code>: {escape(each.why)}</li>" for each in report.omitted
        )
        yield "</ul>"
    yield (
        f'<p class="note">Turns alternate without, with, with, without. Better: the probability that chance alone '
        f"separates the two sides so far (exact Mann-Whitney test) is at most {HELPS:.1%} (worse: {HARMS:.0%}), and "
        f"the medians differ by at least {MIN_CHANGE:.0%}. Fewer than {FEWEST_TURNS} turns of a side cannot decide.</p>"
    )
    yield "</body>\n</html>"


def _section(outcome: Outcome, kept: bool) -> Iterator[str]:
    decision = outcome.decision
    yield f"<h2><code>{escape(outcome.change.label)}</code></h2>"
    yield f"<p>{escape(outcome.change.why)}</p>"
    yield f"<p>{escape(decision.verdict.value)}: <strong>{'kept' if kept else 'reverted'}</strong></p>"
    if outcome.failure:
        yield f"<p>{escape(outcome.failure)}</p>"
    if decision.comparisons:
        yield "<table>\n<tr><th>figure</th><th>without</th><th>with</th><th>better by</th><th></th></tr>"
        yield from map(_row, decision.comparisons)
        yield "</table>"
    for each in decision.comparisons:
        yield f"<figure>\n<figcaption>{escape(each.figure.title)}</figcaption>\n{plot(each)}\n</figure>"


def _row(each: Comparison) -> str:
    cells = (each.figure.title, spread(each, each.without), spread(each, each.changed), f"{each.gain:+.1%}")
    tail = f'<td class="{each.judgement.name.lower()}">{escape(each.judgement.value)}</td>'
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + tail + "</tr>"
