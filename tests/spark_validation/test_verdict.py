"""The verdict of a judgement: findings that convict, findings that are counted, and no verdict."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.anomalies import ANOMALIES
from spark_validation.options import CANNOT_JUDGE, CLEAN, CONVICTED
from spark_validation.verdict import LISTED, Verdict, listed


def finding(anomaly: str, kind: str = "k", convicts: bool = True) -> dict[str, Any]:
    return {"anomaly": anomaly, "kind": kind, "convicts": convicts}


class Frame(list[dict[str, Any]]):
    """Rows as a frame of Spark has them, in some order."""

    def limit(self, count: int) -> "Frame":
        return Frame(self[:count])

    def where(self, column: str) -> "Frame":
        return Frame(row for row in self if row[column])

    def collect(self) -> list[Any]:
        return [SimpleNamespace(asDict=lambda row=row: row) for row in self]


def test_findings_that_are_counted_displace_none_that_convicts() -> None:
    """A run with faults may have many repeats of producers without idempotence, and one of
    another."""
    verdict = Verdict()
    many = [finding("V04", convicts=False)] * (LISTED + 5)
    verdict.add(listed(Frame([*many, finding("V04")])))
    assert verdict.convicted() == {"V04": 1}
    assert len(verdict.results["V04"].counted) == LISTED
    assert verdict.results["V04"].truncated


@pytest.mark.parametrize(
    ("counted", "convicting", "shown"),
    [(0, 3, 3), (2, 3, 5), (0, LISTED + 9, LISTED), (1, LISTED + 9, LISTED + 1)],
)
def test_findings_that_convict_are_listed_up_to_the_limit(counted: int, convicting: int, shown: int) -> None:
    rows = [finding("V01", convicts=False)] * counted + [finding("V01")] * convicting
    assert len(found := listed(Frame(rows))) == shown
    assert sum(row["convicts"] for row in found) == min(convicting, LISTED)


def test_a_finding_that_convicts_outweighs_what_is_missing() -> None:
    verdict = Verdict()
    assert verdict.exit_code == CLEAN
    verdict.add([finding("V04", convicts=False)])
    assert verdict.exit_code == CLEAN
    verdict.missing.append("no drain")
    assert verdict.exit_code == CANNOT_JUDGE
    verdict.add([finding("V01")])
    assert verdict.exit_code == CONVICTED


def test_each_result_has_one_of_four_verdicts() -> None:
    verdict = Verdict()
    verdict.add([finding("V01"), finding("V01", convicts=False), finding("V02", convicts=False)])
    verdict.skip("V01", "why")
    verdict.skip("V03", "why")
    found = {name: result.verdict for name, result in verdict.results.items()}
    expected = {"V01": "convicted", "V02": "counted", "V03": "not judged"}
    assert found == {anomaly.id: expected.get(anomaly.id, "clean") for anomaly in ANOMALIES}
    assert (verdict.results["V03"].reason, verdict.results["V02"].reason) == ("why", "")


def test_findings_are_numbered_by_kind_and_by_anomaly() -> None:
    verdict = Verdict()
    verdict.add([finding("V08", "a"), finding("V08", "b"), finding("V08", "a", convicts=False)])
    verdict.add([finding("V09", "c", convicts=False)])
    assert verdict.results["V08"].kinds() == {"a": 2, "b": 1}
    assert verdict.convicted() == {"V08": 2}


@pytest.mark.parametrize(("rows", "truncated"), [(LISTED - 1, False), (LISTED, True)])
def test_a_check_with_as_many_findings_as_are_kept_has_more(rows: int, truncated: bool) -> None:
    verdict = Verdict()
    verdict.add([finding("V01")] * rows)
    verdict.add([finding("V01"), finding("V02")])
    assert verdict.results["V01"].truncated is truncated
    assert not verdict.results["V02"].truncated


def test_the_weakest_result_rests_on_the_fewest_rows_of_those_that_are_judged() -> None:
    verdict = Verdict()
    assert verdict.weakest is None
    for name, basis in (("V01", 7), ("V02", 3), ("V03", 0), ("V04", 5)):
        verdict.results[name].basis = basis
    verdict.skip("V03", "the run has no reads")
    assert verdict.weakest is verdict.results["V02"]
