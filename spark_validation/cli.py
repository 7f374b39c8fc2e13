"""`python -m spark_validation judge|stream`, or the same by spark-submit; exit 0 clean, 1
convicted, 2 cannot judge."""

import argparse
import json
import logging
import os
import resource
import sys
import time
from typing import Any

from spark_validation.cost import cost
from spark_validation.options import CANNOT_JUDGE, parser
from spark_validation.verdict import CannotJudge, Verdict

EXAMPLES_SAID = 3  # findings of an anomaly on the terminal
DETAIL = 200  # characters of their details


def run_judge(options: argparse.Namespace) -> int:
    from spark_validation.judge import Judge, apply_limits
    from spark_validation.opening import open_evidence
    from spark_validation.report.page import as_json, page
    from spark_validation.summaries import summarise

    began = time.monotonic()
    with open_evidence(options) as evidence:
        judge = Judge(evidence)
        verdict = judge.run()
        limits = {
            "visibility": options.max_visibility_ms,
            "ack": options.max_ack_ms,
            "end_to_end": options.max_end_to_end_ms,
        }
        apply_limits(judge, {name: limit for name, limit in limits.items() if limit is not None})
        if options.report:
            with judge.step("summaries"):
                summary = summarise(evidence)
            options.report.parent.mkdir(parents=True, exist_ok=True)
            options.report.write_text(page(evidence, verdict, summary, judge.latencies))
            found = as_json(evidence, verdict, judge.latencies)
            options.report.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    spent = cost(os.getpid())
    evidence.spark.stop()
    print(f"{time.monotonic() - began:.0f} s, {spent}; report: {options.report or 'none asked for'}")
    say(verdict)
    return verdict.exit_code


def say(verdict: Verdict) -> None:
    """The verdict: a line for each anomaly with the first records, and at last the result."""
    from spark_validation.anomalies import NAMES

    print(", ".join(f"{count:,} {name}" for name, count in verdict.records.items()))
    for name, result in verdict.results.items():
        note = result.reason or ", ".join(f"{kind}: {count}" for kind, count in result.kinds().items())
        if not note and result.basis is not None:
            note = f"rests on {result.basis:,}"
        print(f"{name} {NAMES[name]:<16} {result.verdict:<11} {note}")
        for row in result.convicting[:EXAMPLES_SAID]:
            print(f"    {described(row)}")
        if (more := len(result.convicting) - EXAMPLES_SAID) > 0:
            print(f"    and {more:,}{'+' if result.truncated else ''} more: see the report")
    if (weakest := verdict.weakest) is not None:
        print(f"weakest: {weakest.anomaly} {NAMES[weakest.anomaly]} rests on {weakest.basis:,} rows")
    if verdict.missing and verdict.convicted():
        print("also missing, so more may be wrong: " + "; ".join(verdict.missing))
    print(closing_line(verdict))


def described(row: dict[str, Any]) -> str:
    """A finding in one line: its kind, place, record, reader and detail, as far as it has them."""
    place = f"{row['topic']}-{row['partition']}" if row.get("topic") is not None else ""
    if place and row.get("offset") is not None:
        place += f" offset {row['offset']}"
    parts = [place] if place else []
    if (row.get("producer") or 0) >= 0 and row.get("seq") is not None:
        parts.append(f"producer {row['producer']} seq {row['seq']}")
    if row.get("consumer") is not None:
        parts.append(f"consumer {row['consumer']}")
    detail = row.get("detail") or ""
    cut = f"{detail[:DETAIL]}..." if len(detail) > DETAIL else detail
    return row["kind"] + (": " if parts else "") + ", ".join(parts) + (f" ({cut})" if cut else "")


def closing_line(verdict: Verdict) -> str:
    """The verdict in one line."""
    from spark_validation.anomalies import NAMES

    if convicted := verdict.convicted():
        return "CONVICTED of " + ", ".join(f"{name} {NAMES[name]}" for name in convicted)
    if verdict.missing:
        return "CANNOT JUDGE: " + "; ".join(verdict.missing)
    skipped = sum(not result.judged for result in verdict.results.values())
    return f"CLEAN: no anomaly; {skipped} of {len(verdict.results)} checks were not judged, for the reasons above"


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("spark_validation").setLevel(logging.INFO)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    try:
        if options.command == "judge":
            return run_judge(options)
        from spark_validation.live.job import run_stream

        return run_stream(options)
    except CannotJudge as reason:
        print(f"cannot judge: {reason}", file=sys.stderr)
        return CANNOT_JUDGE
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"cannot judge: {text}", file=sys.stderr)
        return CANNOT_JUDGE
    except Exception:
        logging.getLogger("spark_validation").exception("cannot judge: the judge failed")
        return CANNOT_JUDGE  # Python's own exit code would be that of a conviction
