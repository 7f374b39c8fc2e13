"""The HTML report: verdict first, then what was measured, then the findings."""

import json
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from spark_validation.anomalies import ANOMALIES
from spark_validation.checks.latency import NAMES, Latency
from spark_validation.evidence import Evidence
from spark_validation.report.plot import Mark, plot
from spark_validation.summaries import Summary
from spark_validation.verdict import EXAMPLES, LISTED, Result, Verdict

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#1f2937}
table{border-collapse:collapse;width:100%;margin:.6em 0}td,th{border-bottom:1px solid #e5e7eb;padding:.3em .6em;
text-align:left;vertical-align:top;overflow-wrap:anywhere}td.n{text-align:right;font-variant-numeric:tabular-nums}
.clean{color:#047857}
.convicted{color:#b91c1c;font-weight:700}.counted{color:#b45309}.not{color:#6b7280}
.banner{padding:.7em 1em;border-radius:.4em;color:#fff;font-size:1.3em}.good{background:#047857}
.bad{background:#b91c1c}
svg{width:100%;background:#fafafa}svg text{font-size:10px;fill:#6b7280}svg path{fill:none;stroke-width:1.3}
.grid{stroke:#e5e7eb}.mark{fill:#f59e0b;opacity:.25}figure{margin:1em 0}
figcaption span{margin-left:1em}code{font-size:.9em}
"""


def faults_of(folder: Path) -> list[dict[str, Any]]:
    """The faults of the broker; a torn last line is left out."""
    found = []
    path = folder / "faults.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def marks_of(faults: list[dict[str, Any]], start_ns: int) -> list[Mark]:
    return [
        (
            (f["begin_ns"] - start_ns) / 1e9,
            ((f.get("end_ns") or f["begin_ns"]) - start_ns) / 1e9,
            f"{f.get('fault', '')} {f.get('target', '')} {f.get('outcome', '')}",
        )
        for f in faults
        if f.get("begin_ns")
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """HTML table; cells are HTML."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{titles}</tr>{body}</table>"


def verdict_row(result: Result, name: str, means: str) -> list[str]:
    kind = result.verdict.split()[0]
    more = f"{LISTED}+ " if result.truncated else ""
    count = len(result.convicting) + len(result.counted)
    kinds = ", ".join(f"{escape(str(kind))}: {number}" for kind, number in result.kinds().items())
    text = f"{more}{count} ({kinds})" if count else escape(result.reason)
    return [
        result.anomaly,
        f"<b>{name}</b><br><small>{escape(means)}</small>",
        f'<span class="{kind}">{result.verdict}</span>',
        text,
    ]


def listing(result: Result, name: str) -> str:
    """The first findings of an anomaly."""
    rows = (result.convicting + result.counted)[:EXAMPLES]
    if not rows:
        return ""
    cells = [
        [
            escape(str(row["kind"])) + ("" if row["convicts"] else " (counted)"),
            f"{escape(str(row.get('topic')))}-{row.get('partition')}@{row.get('offset')}"
            if row.get("topic")
            else "",
            "" if row.get("producer") is None else f"{row['producer']}:{row.get('seq')}",
            "" if row.get("consumer") is None else str(row["consumer"]),
            f"<code>{escape(str(row.get('detail') or ''))}</code>",
        ]
        for row in rows
    ]
    head = ["kind", "topic-partition@offset", "producer:seq", "consumer", "detail"]
    return f"<h3>{result.anomaly} {name}</h3>{table(head, cells)}"


def banner_of(verdict: Verdict) -> str:
    """The verdict in one line."""
    if convicted := verdict.convicted():
        return "Convicted: " + ", ".join(convicted)
    if verdict.missing:
        return "Cannot judge: " + "; ".join(verdict.missing)
    weakest = verdict.weakest
    rests = f"; the weakest check, {weakest.anomaly}, rests on {weakest.basis:,} rows" if weakest else ""
    return f"Clean: no anomaly found{rests}"


def page(evidence: Evidence, verdict: Verdict, summary: Summary, latencies: list[Latency]) -> str:
    """The whole file."""
    run = evidence.run
    good = verdict.exit_code == 0
    faults = faults_of(evidence.folder)
    banner = banner_of(verdict)
    results = [verdict_row(verdict.results[a.id], a.name, a.means) for a in ANOMALIES]
    delays = [
        [escape(found.what), f"{found.count:,}", *(f"{ms:.2f}" for ms in found.milliseconds or ())]
        for found in latencies
        if found.milliseconds
    ]
    marks = marks_of(faults, summary.start_ns)
    plots = "".join(plot(series, marks) for series in summary.plots)
    costs = [[escape(name), f"{taken:.1f} s"] for name, taken in verdict.seconds.items()]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Verdict of run {run.run}</title>'
        f"<style>{STYLE}</style>"
        f'<h1>Verdict of run {run.run}</h1><p class="banner {"good" if good else "bad"}">{escape(banner)}</p>'
        f"{table(['', ''], _facts(evidence, verdict, summary))}"
        f"<h2>Anomalies</h2>{table(['', 'anomaly', 'verdict', 'findings'], results)}"
        f"{_findings(verdict)}"
        f"<h2>Latency (ms)</h2>{table(['', 'records', *NAMES], delays)}"
        f"<h2>Over time</h2><p>Shaded: faults. A point is {summary.width_s:g} s.</p>{plots}"
        f"{_faults(faults, summary.start_ns)}"
        f"<h2>Cost of this judgement</h2>{table(['step', 'wall time'], costs)}</html>\n"
    )


def _facts(evidence: Evidence, verdict: Verdict, summary: Summary) -> list[list[str]]:
    run = evidence.run
    when = datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    seconds = summary.end_ns / 1e9 - summary.start_ns / 1e9
    return [
        ["run", f"{run.run}, seed {run.seed}, {when}, {seconds:.0f} s of load"],
        ["broker", escape(f"{run.broker} {run.bootstrap}")],
        [
            "topics",
            escape(", ".join(f"{t.name} ({t.partitions}, {t.mode}, {t.cleanup_policy})" for t in run.topics)),
        ],
        [
            "clients",
            f"{len(evidence.producer_clients)} starts of producers, {len(evidence.consumer_clients)} of consumers",
        ],
        ["judged", ", ".join(f"{count:,} {name}" for name, count in verdict.records.items())],
        ["log read", "segment files" if evidence.source == "segments" else "through Spark's Kafka connector"],
        ["drained", "yes" if run.drained else "no"],
        ["clock steps", str(len(run.clock_steps))],
    ]


def _findings(verdict: Verdict) -> str:
    details = "".join(listing(verdict.results[a.id], a.name) for a in ANOMALIES)
    note = f"The first {EXAMPLES} of each; all are in the JSON beside this file."
    return f"<h2>Findings</h2><p>{note}</p>{details}" if details else ""


def _faults(faults: list[dict[str, Any]], start_ns: int) -> str:
    done = [
        [
            f"{(f.get('begin_ns', 0) - start_ns) / 1e9:.1f} s",
            *(escape(str(f.get(name, ""))) for name in ("fault", "target", "outcome", "detail")),
        ]
        for f in faults
    ]
    head = ["after", "fault", "target", "outcome", "detail"]
    return f"<h2>Faults</h2>{table(head, done)}" if done else ""


def as_json(evidence: Evidence, verdict: Verdict, latencies: list[Latency]) -> dict[str, Any]:
    """The verdict for programs: verdict.json, with every finding."""
    return {
        "run": evidence.run.run,
        "exit_code": verdict.exit_code,
        "records": verdict.records,
        "missing": verdict.missing,
        "source": evidence.source,
        "results": {
            name: {
                "verdict": result.verdict,
                "reason": result.reason,
                "rests_on": result.basis,
                "kinds": result.kinds(),
                "truncated": result.truncated,
                "findings": result.convicting + result.counted,
            }
            for name, result in verdict.results.items()
        },
        "latency_ms": {
            found.what: dict(zip(NAMES, found.milliseconds or (), strict=False)) for found in latencies
        },
        "seconds": verdict.seconds,
    }
