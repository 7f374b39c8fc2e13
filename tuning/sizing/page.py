"""The answer of `tune size` as one HTML file: no script, nothing from elsewhere."""

from collections.abc import Iterator, Sequence
from html import escape

from tuning.quantity import show_rate
from tuning.render import answer_text
from tuning.sizing.answer import Answer
from tuning.sizing.growth import Growth
from tuning.sizing.growth_text import conclusion, shown
from tuning.verify.page import STYLE
from tuning.verify.plot import lines_plot


def page(workload: Sequence[str], answer: Answer, growth: Growth | None) -> str:
    """The whole file."""
    return "\n".join(_parts(workload, answer, growth)) + "\n"


def _parts(workload: Sequence[str], answer: Answer, growth: Growth | None) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>kbroker tune size</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<h1>kbroker tune size</h1>\n<p>Workload: {escape(', '.join(workload))}</p>"
    yield "<table>\n<tr><th>resource</th><th>used</th><th>needs</th><th>has</th></tr>"
    for need in answer.needs:
        yield _row("td", (need.resource, shown(need.share), need.needed, need.have))
    yield "</table>"
    _, _, rest = answer_text(answer).partition("\n\n")
    yield "".join(f"<p>{escape(line)}</p>\n" for line in rest.splitlines())
    if growth is not None:
        yield from _growth(growth)
    yield "</body>\n</html>"


def _growth(growth: Growth) -> Iterator[str]:
    yield f"<h2>Growth of {growth.percent:g}% a month</h2>\n<p><strong>{escape(conclusion(growth))}</strong></p>"
    names = [name for name, share in growth.months[0].shares.items() if share is not None]
    series = {name: [month.shares[name] or 0.0 for month in growth.months] for name in names}
    title = "Used share of each resource, by month"
    yield f"<figure>\n<figcaption>{title}</figcaption>\n{lines_plot(title, series)}\n</figure>"
    yield "<table>\n" + _row("th", ("month", "written", *growth.months[0].shares))
    for month in growth.months:
        yield _row("td", (str(month.number), show_rate(month.write_rate), *map(shown, month.shares.values())))
    yield "</table>"


def _row(cell: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts) + "</tr>"
