"""Reports of the judge, of a load test, of the benchmark and of `kbroker tune verify`, recognised
by their contents. Pure. The files are untrusted: unexpected parts are left out, and every value
becomes text."""

import json
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from statistics import median
from typing import Any

from msgspec import Struct, field

MAX_ROWS = 500
MAX_CHARACTERS = 400
"""Maximum length of a value; the report's text has all of it."""
MAX_DEPTH = 4
"""Maximum depth of lists and objects in a value."""
FINDINGS_OF_ONE = 20
VERDICTS = {0: ("clean", "good"), 1: ("convicted", "bad"), 2: ("cannot judge", "warn")}
KBROKER, KAFKA = "kbroker", "kafka"


class Table(Struct, frozen=True):
    """Cells are text. left_out: rows beyond the bound."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    left_out: int = 0


class Report(Struct, frozen=True):
    """tone: good, warn, bad, or empty without a verdict. figures: names and values of the main
    figures. tables: all other data."""

    kind: str
    verdict: str
    tone: str
    figures: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def report_of(data: bytes) -> Report | None:
    """The report in a file; None if the file is not a report."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    for is_one, make in KINDS:
        if is_one(content):
            return make(content)
    return None


def shown(value: object, deep: int = MAX_DEPTH) -> str:
    """A value as text. deep: levels of nested values that are shown."""
    if not isinstance(value, (Mapping, list)):
        text = _scalar(value)
    elif not deep:
        text = "…"
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key} {shown(each, deep - 1)}" for key, each in list(value.items())[:MAX_ROWS])
    else:
        text = ", ".join(shown(each, deep - 1) for each in value[:MAX_ROWS])
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def _scalar(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else f"{float(value):.3g}" if abs(value) < 10**300 else "?"
    if isinstance(value, float):
        return f"{value:,.6g}" if isfinite(value) else str(value)
    return str(value)


def _table(title: str, columns: tuple[str, ...], rows: Iterable[Iterable[object]]) -> Table:
    all_rows = list(rows)
    cells = [[shown(cell) for cell in row] for row in all_rows[:MAX_ROWS]]
    return Table(title, columns, cells, len(all_rows) - len(cells))


def _dict(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _dicts(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = content.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None  # type: ignore[arg-type]


# --- the judge -----------------------------------------------------------------------------------------


def _is_verdict(content: Mapping[str, Any]) -> bool:
    return isinstance(content.get("results"), dict) and content.get("exit_code") in (0, 1, 2)


def _verdict(content: Mapping[str, Any]) -> Report:
    verdict, tone = VERDICTS[int(content["exit_code"])]
    results = {name: each for name, each in content["results"].items() if isinstance(each, dict)}
    convicted = [name for name, each in results.items() if each.get("verdict") == "convicted"]
    figures = [("run", shown(content.get("run")))]
    if convicted:
        figures.append(("convicted of", shown(convicted)))
    if content.get("missing"):
        figures.append(("missing", shown(content["missing"])))
    figures += [(str(name), shown(count)) for name, count in list(_dict(content, "records").items())[:8]]
    latencies = {name: each for name, each in _dict(content, "latency_ms").items() if isinstance(each, dict)}
    names = list(dict.fromkeys(str(name) for each in latencies.values() for name in each))[:8]
    tables = [
        _table(
            "Anomalies",
            ("anomaly", "verdict", "findings", "rests on", "reason"),
            (
                (
                    name,
                    each.get("verdict"),
                    each.get("kinds") or "–",
                    each.get("rests_on"),
                    each.get("reason"),
                )
                for name, each in results.items()
            ),
        ),
        _table(
            "Findings",
            ("anomaly", "kind", "place", "producer:seq", "detail"),
            (
                (name, row.get("kind"), _place(row), _record(row), row.get("detail"))
                for name, each in results.items()
                for row in _dicts(each, "findings")[:FINDINGS_OF_ONE]
            ),
        ),
        _table(
            "Latency (ms)",
            ("", *names),
            ((what, *(each.get(name) for name in names)) for what, each in latencies.items()),
        ),
    ]
    return Report("judge", verdict, tone, figures, [table for table in tables if table.rows])


def _place(row: Mapping[str, Any]) -> str:
    if not row.get("topic"):
        return "–"
    return f"{shown(row['topic'])}-{shown(row.get('partition'))}@{shown(row.get('offset'))}"


def _record(row: Mapping[str, Any]) -> str:
    return "–" if row.get("producer") is None else f"{shown(row['producer'])}:{shown(row.get('seq'))}"


# --- the load test -------------------------------------------------------------------------------------

LOAD = {
    "acked": "acknowledged",
    "acked_per_s": "acknowledged/s",
    "acked_mb_per_s": "MB/s",
    "ack_p99_ms": "ack p99 (ms)",
    "end_to_end_p99_ms": "end to end p99 (ms)",
    "faults": "faults",
}


def _is_load(content: Mapping[str, Any]) -> bool:
    return {"acked", "seen", "acked_per_s", "not_acked"} <= content.keys()


def _load(content: Mapping[str, Any]) -> Report:
    lost = _number(content["not_acked"])
    verdict, tone = (
        ("all acknowledged", "good")
        if lost == 0
        else (f"{shown(content['not_acked'])} not acknowledged", "warn")
    )
    figures = [(title, shown(content[name])) for name, title in LOAD.items() if content.get(name)]
    return Report(
        "load test", verdict, tone, figures, [_table("Figures", ("figure", "value"), content.items())]
    )


# --- the benchmark -------------------------------------------------------------------------------------


def _is_benchmark(content: Mapping[str, Any]) -> bool:
    return isinstance(content.get("samples"), list) and isinstance(content.get("machine"), dict)


def _benchmark(content: Mapping[str, Any]) -> Report:
    samples = [*_dicts(content, "samples"), *_kept(content["samples"])]
    failed = [each for each in samples if each.get("failure")]
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for sample in samples:
        for key, value in _dict(sample, "figures").items():
            if (number := _number(value)) is not None:
                row = values.setdefault((str(sample.get("scenario")), str(key)), {})
                row.setdefault(str(sample.get("target")), []).append(number)
    targets = sorted({target for row in values.values() for target in row})[:6]
    titles = _dict(content, "titles")
    rows = (
        (titles.get(scenario, scenario), key, *(_median(row.get(each)) for each in targets), _ratio(row))
        for (scenario, key), row in values.items()
    )
    figures = [
        ("scenarios", shown(len({scenario for scenario, _ in values}))),
        ("turns", shown(len(samples))),
        ("brokers", shown(targets)),
    ]
    tables = [
        _table("Medians", ("scenario", "figure", *targets, f"{KBROKER} / {KAFKA}"), rows),
        _table("Failed turns", ("scenario", "broker", "why"),
               ((each.get("scenario"), each.get("target"), each.get("failure")) for each in failed)),
        _table("Machine and setup", ("", ""), [*content["machine"].items(), *_dict(content, "setup").items()]),
    ]  # fmt: skip
    verdict, tone = (f"{len(failed)} turns failed", "bad") if failed else ("no turn failed", "good")
    if not samples:
        verdict, tone = "no turns", ""
    return Report("benchmark", verdict, tone, figures, [table for table in tables if table.rows])


def _kept(samples: list[Any]) -> list[dict[str, Any]]:
    """Samples in the format of the files beside docs/benchmarks.md, a list for each."""
    names = ("scenario", "target", "round", "figures", "failure")
    return [dict(zip(names, each, strict=False)) for each in samples if isinstance(each, list)]


def _median(values: list[float] | None) -> float | None:
    return median(values) if values else None


def _ratio(row: Mapping[str, list[float]]) -> str:
    ours, theirs = _median(row.get(KBROKER)), _median(row.get(KAFKA))
    return "–" if ours is None or not theirs else f"{ours / theirs:.2f}"


# --- kbroker tune verify -------------------------------------------------------------------------------


def _is_proof(content: Mapping[str, Any]) -> bool:
    return isinstance(content.get("conclusion"), str) and isinstance(content.get("changes"), list)


def _proof(content: Mapping[str, Any]) -> Report:
    changes = _dicts(content, "changes")
    kept = [each for each in changes if each.get("kept") is True]
    stopped = content.get("interrupted")
    verdict = "interrupted" if stopped else f"{len(kept)} of {len(changes)} changes help"
    tone = "warn" if stopped else "good" if kept else ""
    rows = (
        (
            each.get("change"),
            each.get("verdict"),
            each.get("kept") is True,
            figure.get("title"),
            _gain(figure),
        )
        for each in changes
        for figure in _dicts(each, "figures") or [{}]
    )
    tables = [_table("Changes", ("change", "verdict", "kept", "figure", "better by"), rows)]
    figures = [("conclusion", shown(content["conclusion"])), ("host", shown(content.get("host")))]
    return Report("tune verify", verdict, tone, figures, [table for table in tables if table.rows])


def _gain(figure: Mapping[str, Any]) -> str:
    gain = _number(figure.get("gain"))
    return "–" if gain is None else f"{gain:+.1%} {shown(figure.get('judgement') or '')}".strip()


KINDS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Report]], ...] = (
    (_is_verdict, _verdict),
    (_is_load, _load),
    (_is_benchmark, _benchmark),
    (_is_proof, _proof),
)
