"""The page of a run that is judged while it runs; it reloads itself."""

import json
from datetime import UTC, datetime
from html import escape

from spark_validation.verdict import Verdict


def live_page(run: int, verdict: Verdict, totals: dict[str, int], ended: bool) -> str:
    """A page that reloads itself while the run lasts."""
    rows = [row for result in verdict.results.values() for row in result.convicting][:50]
    listed = "".join(f"<li><code>{escape(json.dumps(row))}</code></li>" for row in rows)
    counts = "".join(f"<tr><td>{escape(name)}</td><td>{count:,}</td></tr>" for name, count in totals.items())
    state = "Convicted: " + ", ".join(verdict.convicted()) if verdict.convicted() else "No anomaly so far"
    refresh = "" if ended else '<meta http-equiv="refresh" content="2">'
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    return (
        f'<!doctype html><meta charset="utf-8">{refresh}<title>Run {run} live</title>'
        f"<h1>{escape(state)}</h1><p>Run {run}, {now}{', ended' if ended else ''}</p>"
        f"<table>{counts}</table><ol>{listed}</ol>\n"
    )
