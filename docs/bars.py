"""docs/bars.svg: some measured figures of kbroker beside Apache Kafka, from the table in
docs/benchmarks.md."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "benchmarks.md"

# Work and measure as the table names them, and the bar's own title. Shorter is better where lower
# is.
SHOWN = (
    (
        "one record per request, raw sockets, 50 x 5 in flight",
        "rate, requests/s",
        "requests of one record, per second",
        "more",
    ),
    (
        "1 KB idempotent acks=all produce (librdkafka)",
        "throughput, MB/s",
        "idempotent produce of 1 KB records, MB/s",
        "more",
    ),
    ("consume 1 KB from cache (librdkafka)", "throughput, MB/s", "consume of 1 KB records, MB/s", "more"),
    ("ack latency at 1,000/s", "ack p99, ms", "acknowledgement at 1,000/s, p99, ms", "less"),
    ("cold start and memory", "memory loaded (PSS), MB", "memory under load, MB", "less"),
    ("cold start and memory", "time to the first answer, s", "start to first answer, s", "less"),
)

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .paper { fill: #ffffff; }
  .title { font-weight: 600; }
  .note { fill: #52606d; font-size: 12px; }
  .ours { fill: #2563eb; }
  .theirs { fill: #9aa5b1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; }
    .paper { fill: #111827; }
    .note { fill: #9aa5b1; }
    .ours { fill: #60a5fa; }
    .theirs { fill: #616e7c; }
  }
"""
WIDTH, LEFT, LONGEST, ROW, TOP = 760, 20, 560, 66, 50


@dataclass(frozen=True, slots=True)
class Bar:
    """One measure: the values as the table prints them."""

    title: str
    better: str
    theirs: str
    ours: str

    def lengths(self) -> tuple[int, int]:
        """Lengths of Apache Kafka's bar and kbroker's; the longer one has LONGEST."""
        values = [float(text.replace(",", "")) for text in (self.theirs, self.ours)]
        return tuple(max(2, round(LONGEST * value / max(values))) for value in values)  # type: ignore[return-value]


def measured(page: str) -> list[Bar]:
    """The shown measures that the table has: a run may have been cut."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    work = ""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) >= 5 and re.match(r"[\d.,]+$", cells[2]) and re.match(r"[\d.,]+$", cells[3]):
            work = cells[0] or work
            found[work, cells[1]] = cells[2], cells[3]
    return [
        Bar(title, better, *found[work, measure])
        for work, measure, title, better in SHOWN
        if (work, measure) in found
    ]


def picture(page: str | None = None) -> str:
    """The whole file. page: text of another page than docs/benchmarks.md."""
    bars = measured(PAGE.read_text() if page is None else page)
    height = TOP + ROW * len(bars) + 30
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-label="kbroker beside Apache Kafka: measured figures">'
        ),
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%" rx="8"/>',
        f'<rect class="ours" x="{LEFT}" y="14" width="12" height="12"/><text x="{LEFT + 18}" y="25">kbroker</text>',
        (
            f'<rect class="theirs" x="{LEFT + 90}" y="14" width="12" height="12"/>'
            f'<text x="{LEFT + 108}" y="25">Apache Kafka 4.3.1</text>'
        ),
        f'<text class="note" x="{WIDTH - 20}" y="25" text-anchor="end">medians, same machine; make bench</text>',
    ]
    for number, bar in enumerate(bars):
        y = TOP + ROW * number
        theirs, ours = bar.lengths()
        parts += [
            (
                f'<text class="title" x="{LEFT}" y="{y + 14}">{bar.title}<tspan class="note"> ({bar.better} is better)'
                "</tspan></text>"
            ),
            _bar("ours", y + 21, ours, bar.ours),
            _bar("theirs", y + 39, theirs, bar.theirs),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(kind: str, y: int, length: int, value: str) -> str:
    return (
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length}" height="14" rx="2"/>'
        f'<text x="{LEFT + length + 8}" y="{y + 12}">{value}</text>'
    )
