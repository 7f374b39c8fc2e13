"""A folder of reports, with what must not be shown beside them."""

import json
import os
from pathlib import Path
from typing import Any

MARKUP = "<img src=x onerror=alert(1)>"
FINDING = {
    "anomaly": "V01", "convicts": True, "kind": "gone", "topic": MARKUP, "partition": 1, "offset": 12, "producer": 3,
    "seq": 44, "detail": MARKUP,
}  # fmt: skip
VERDICT = {
    "run": 77,
    "exit_code": 1,
    "records": {"sends": 12345},
    "missing": [],
    "results": {
        "V01": {"verdict": "convicted", "kinds": {"gone": 1}, "findings": [FINDING]},
        "V02": {"verdict": "clean", "reason": "", "rests_on": 500, "kinds": {}, "findings": []},
    },
    "latency_ms": {"acknowledged after intended": {"p50": 1.5, "p99": 12.0}},
    "notes": ["x" * 100] * 2500,
}
FIGURES = {"acked": 5000, "seen": 4900, "acked_per_s": 500.0, "not_acked": 0, "ack_p99_ms": 12.5}
BENCHMARK = {
    "machine": {"cores": "2"},
    "setup": {"turns": "5 s"},
    "titles": {"acks": "acks of 64 producers"},
    "samples": [
        {"round": 0, "target": "kafka", "scenario": "acks", "figures": {"rate": 100.0}, "failure": ""},
        {"round": 0, "target": "kbroker", "scenario": "acks", "figures": {"rate": 300.0}, "failure": ""},
    ],
}


def write_reports(folder: Path) -> None:
    """Three reports, the verdict newest; a file that is none, and a link."""
    run = folder / "load" / "run-1"
    run.mkdir(parents=True)
    _write(run / "verdict.json", VERDICT, 1_700_000_300)
    _write(run / "figures.json", FIGURES, 1_700_000_200)
    _write(folder / "bench.json", BENCHMARK, 1_700_000_100)
    _write(folder / "secret.json", {"password": "hunter2"}, 1_700_000_000)
    outside = folder.parent / "outside.json"
    _write(outside, FIGURES, 1_700_000_000)
    (folder / "link.json").symlink_to(outside)


def _write(path: Path, content: Any, at_s: int) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
    os.utime(path, (at_s, at_s))
