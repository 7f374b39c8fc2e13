"""What the programs write is known and summed up; any other file is no report."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import saved_samples
from bench.results import Results, Sample
from kbroker.http.console.reports import FINDINGS_OF_ONE, MAX_CHARACTERS, MAX_ROWS, Report, report_of, shown
from tests.tuning.verify.proofs import HELPED, SAME
from tests.tuning.verify.proofs import report as proof

FINDING = {
    "anomaly": "V01", "convicts": True, "kind": "gone", "topic": "<b>t</b>", "partition": 1, "offset": 12,
    "producer": 3, "seq": 44, "detail": "acknowledged",
}  # fmt: skip


def made(content: object) -> Report:
    found = report_of(json.dumps(content).encode())
    assert found is not None
    return found


def table(report: Report, title: str) -> list[list[str]]:
    return next(each.rows for each in report.tables if each.title == title)


@pytest.mark.spark
def test_the_verdict_of_the_judge_is_known() -> None:
    pytest.importorskip("pyspark", reason="`make venv-spark` brings it")
    from spark_validation.checks.latency import Latency
    from spark_validation.report.page import as_json
    from spark_validation.verdict import Verdict

    evidence = cast(Any, SimpleNamespace(run=SimpleNamespace(run=77), source="segments"))
    verdict = Verdict(records={"sends": 12345})
    assert made(as_json(evidence, verdict, [])).verdict == "clean"
    verdict.missing.append("the run has not ended")
    assert made(as_json(evidence, verdict, [])).verdict == "cannot judge"
    verdict.add([FINDING] * (FINDINGS_OF_ONE + 5))
    found = made(as_json(evidence, verdict, [Latency("acknowledged after intended", 10, (1.0, 2.0, 3.0))]))
    assert (found.kind, found.verdict, found.tone) == ("judge", "convicted", "bad")
    assert dict(found.figures) == {
        "run": "77",
        "convicted of": "V01",
        "missing": "the run has not ended",
        "sends": "12,345",
    }
    rows = {row[0]: row for row in table(found, "Anomalies")}
    assert rows["V01"][1:3] == ["convicted", "gone 25"]
    assert rows["V02"][1] == "clean"
    findings = table(found, "Findings")
    assert findings[0] == ["V01", "gone", "<b>t</b>-1@12", "3:44", "acknowledged"]
    assert len(findings) == FINDINGS_OF_ONE
    assert table(found, "Latency (ms)")[0][:2] == ["acknowledged after intended", "1"]


def test_the_figures_of_a_load_test_are_known() -> None:
    from loadtest.figures import Figures, interval

    last = Figures(acked=5000, seen=4900, acked_bytes=5_000_000)
    content = {
        "acked": last.acked,
        "seen": last.seen,
        **interval(last, Figures(), 10.0),
        "faults": {"kill": 2},
    }
    found = made(content)
    assert (found.kind, found.verdict, found.tone) == ("load test", "all acknowledged", "good")
    assert dict(found.figures) == {
        "acknowledged": "5,000",
        "acknowledged/s": "500",
        "MB/s": "0.5",
        "faults": "kill 2",
    }
    assert ["seen", "4,900"] in table(found, "Figures")
    assert made(content | {"not_acked": 3}).verdict == "3 not acknowledged"


def test_a_run_of_the_benchmark_is_known(tmp_path: Path) -> None:
    samples = [
        Sample(number, target, "acks", {"rate": rate + number})
        for target, rate in (("kafka", 100.0), ("kbroker", 300.0))
        for number in range(3)
    ]
    results = Results({"cores": "2"}, {"turns": "5 s"}, samples, {"acks": "acks of 64 producers"})
    results.save(tmp_path / "bench.json")
    found = report_of((tmp_path / "bench.json").read_bytes())
    assert found is not None
    assert (found.kind, found.verdict) == ("benchmark", "no turn failed")
    assert table(found, "Medians") == [["acks of 64 producers", "rate", "101", "301", "2.98"]]
    assert table(found, "Machine and setup") == [["cores", "2"], ["turns", "5 s"]]
    saved_samples.save(tmp_path / "samples.json", results)
    assert report_of((tmp_path / "samples.json").read_bytes()) == found
    empty = Results({"cores": "2"}, {}, [])
    empty.save(tmp_path / "begun.json")
    assert made(json.loads((tmp_path / "begun.json").read_text())).verdict == "no turns"
    samples.append(Sample(3, "kafka", "acks", failure="it did not start"))
    results.save(tmp_path / "bench.json")
    found = report_of((tmp_path / "bench.json").read_bytes())
    assert found is not None
    assert (found.verdict, found.tone) == ("1 turns failed", "bad")
    assert table(found, "Failed turns") == [["acks", "kafka", "it did not start"]]


def test_a_proof_of_the_tuner_is_known() -> None:
    found = made(proof(HELPED, SAME).as_json())
    assert (found.kind, found.verdict, found.tone) == ("tune verify", "1 of 2 changes help", "good")
    assert dict(found.figures)["conclusion"] == "1 of 2 changes helped and stay."
    rows = table(found, "Changes")
    assert rows[0][:3] == ["num.io.threads=2", "helped", "yes"]
    assert any(row[4] == "+12.5% better" for row in rows)
    assert made(proof(interrupted="SIGINT").as_json()).verdict == "interrupted"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b'{"password": "x"}', b'{"a":' * 50_000,
     b'{"results": [], "exit_code": 0}', b'{"results": {}, "exit_code": 3}', b'{"results": {}, "exit_code": []}',
     b'{"samples": 1, "machine": {}}', b'{"conclusion": 1, "changes": []}', b"9" * 5000],
)  # fmt: skip
def test_other_files_are_no_reports(data: bytes) -> None:
    assert report_of(data) is None


def test_values_and_tables_are_bounded() -> None:
    assert len(shown("x" * 10_000)) == len(shown(["y" * 100] * 1000)) == MAX_CHARACTERS
    assert [shown(value) for value in (True, None, 1234, 0.5, float("nan"), 10**40)] == [
        "yes", "–", "1,234", "0.5", "nan", "1e+40",
    ]  # fmt: skip
    assert len(shown(10**600)) < 10
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    assert shown(deep) == "…"
    many = {f"figure {number}": number for number in range(2 * MAX_ROWS)}
    found = made({"acked": 1, "seen": 1, "acked_per_s": 1, "not_acked": 0, **many})
    assert (len(found.tables[0].rows), found.tables[0].left_out) == (MAX_ROWS, MAX_ROWS + 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    "results", "exit_code", "run", "missing", "records", "latency_ms", "acked", "seen", "acked_per_s", "not_acked",
    "faults", "samples", "machine", "setup", "titles", "conclusion", "changes", "interrupted", "host",
)  # fmt: skip
INNER = (
    "verdict",
    "kinds",
    "findings",
    "topic",
    "producer",
    "scenario",
    "figures",
    "gain",
    "failure",
    "kept",
)


@given(
    st.sampled_from(
        [
            {"results": {}, "exit_code": 1},
            {"acked": 1, "seen": 1, "acked_per_s": 1, "not_acked": 0},
            {"samples": [], "machine": {}},
            {"conclusion": "", "changes": []},
        ]
    ),
    st.dictionaries(
        st.sampled_from(NAMES),
        JSON
        | st.dictionaries(st.sampled_from(INNER), JSON)
        | st.lists(st.dictionaries(st.sampled_from(INNER), JSON), max_size=3)
        | st.dictionaries(st.text(max_size=3), st.dictionaries(st.sampled_from(INNER), JSON), max_size=3),
        max_size=4,
    ),
)
def test_no_content_makes_a_report_fail(base: dict[str, Any], more: dict[str, Any]) -> None:
    found = report_of(json.dumps(base | more).encode())
    if found is not None:
        cells = [cell for each in found.tables for row in each.rows for cell in (*each.columns, *row)]
        assert all(type(text) is str for text in (*cells, *(part for pair in found.figures for part in pair)))
