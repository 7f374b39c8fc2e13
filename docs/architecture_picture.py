"""docs/architecture.svg: processes, what they share, and the two ways of a record."""

WIDTH, HEIGHT = 820, 470

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .paper { fill: #ffffff; }
  .name { font-weight: 600; }
  .note { font-size: 12px; fill: #52606d; }
  .process { fill: #eff6ff; stroke: #2563eb; stroke-width: 1.5; }
  .memory { fill: #f5f7fa; stroke: #7b8794; stroke-dasharray: 5 3; }
  .disk { fill: #fff7ed; stroke: #c2410c; }
  .way { stroke: #1f2933; stroke-width: 1.6; fill: none; marker-end: url(#tip); }
  .tip { fill: #1f2933; }
  .back { stroke: #15803d; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; }
    .paper { fill: #111827; }
    .note { fill: #9aa5b1; }
    .process { fill: #172554; stroke: #60a5fa; }
    .memory { fill: #1f2933; stroke: #9aa5b1; }
    .disk { fill: #431407; stroke: #fb923c; }
    .way { stroke: #e4e7eb; }
    .tip { fill: #e4e7eb; }
    .back { stroke: #4ade80; }
  }
"""

# kind, x, y, width, height, name, notes
BOXES = (
    ("memory", 14, 60, 118, 70, "clients", ("any Kafka client",)),
    ("process", 215, 20, 200, 62, "acceptor, supervisor", ("listens, accepts, restarts",)),
    (
        "process",
        215,
        130,
        200,
        80,
        "network processes",
        ("one loop each, own their", "sockets; compiled pump"),
    ),
    ("process", 570, 130, 225, 80, "control", ("topics, settings, groups,", "transactions; SQLite")),
    ("memory", 215, 262, 390, 58, "shared memory", ("rings, arenas of requests, partition slots, counters",)),
    ("process", 215, 372, 200, 78, "IO workers", ("each partition is written", "by exactly one")),
    ("disk", 500, 372, 130, 78, "segment files", ("Kafka's format,", "page cache")),
    ("process", 680, 330, 115, 52, "cleaner", ("compaction",)),
    ("process", 680, 405, 115, 52, "http", ("metrics, console",)),
)

# class, path, text, its place
WAYS = (
    ("way", "M130 80 L213 52", "connect", 138, 52),
    ("way", "M315 82 L315 128", "passes the socket on", 323, 108),
    ("way", "M130 112 L213 158", "1 produce, 4 fetch", 40, 158),
    ("way", "M415 155 L568 155", "questions, in blocks", 428, 147),
    ("way", "M568 185 L417 185", "answers, topic images", 430, 178),
    ("way", "M270 210 L270 260", "2 append entry", 172, 240),
    ("way back", "M350 262 L350 212", "3 completion", 358, 240),
    ("way", "M270 320 L270 370", "2", 255, 350),
    ("way back", "M350 372 L350 322", "3", 358, 350),
    ("way", "M415 411 L498 411", "pwritev", 432, 403),
    ("way", "M680 210 L590 260", "appends to internal topics", 640, 250),
    ("way back", "M560 372 C 560 330, 640 340, 640 290 C 640 225, 520 235, 417 200", "4 sendfile", 647, 305),
)


def picture() -> str:
    """The whole file."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Processes">',
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%" rx="8"/>',
        (
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>'
        ),
    ]
    parts += [
        f'<path class="{kind}" d="{way}"/><text class="note" x="{x}" y="{y}">{text}</text>'
        for kind, way, text, x, y in WAYS
    ]
    for kind, x, y, width, height, name, notes in BOXES:
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')
        parts.append(f'<text class="name" x="{x + 12}" y="{y + 24}">{name}</text>')
        parts += [
            f'<text class="note" x="{x + 12}" y="{y + 42 + 16 * line}">{note}</text>'
            for line, note in enumerate(notes)
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
