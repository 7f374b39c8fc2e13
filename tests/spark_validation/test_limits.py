"""Limits of V17 and V18: exceeded, kept, or without anything to compare."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.checks.latency import Latency
from spark_validation.judge import apply_limits
from spark_validation.options import CANNOT_JUDGE, CLEAN, CONVICTED
from spark_validation.verdict import Verdict


@pytest.mark.parametrize(("name", "anomaly"), [("visibility", "V17"), ("ack", "V18"), ("end_to_end", "V18")])
@pytest.mark.parametrize(("p99", "code"), [(1.0, CLEAN), (3.0, CONVICTED), (None, CANNOT_JUDGE)])
def test_a_limit_without_a_measurement_is_no_clean_run(
    name: str, anomaly: str, p99: float | None, code: int
) -> None:
    found = Latency("it", 0 if p99 is None else 9, None if p99 is None else (p99,) * 5)
    judge: Any = SimpleNamespace(verdict=Verdict(), latencies=[found] * 4)
    apply_limits(judge, {name: 2.0})
    assert judge.verdict.exit_code == code
    assert judge.verdict.results[anomaly].judged == (p99 is not None)


def test_nothing_is_missing_where_no_limit_is_given() -> None:
    judge: Any = SimpleNamespace(verdict=Verdict(), latencies=[Latency("it", 0, None)] * 4)
    apply_limits(judge, {})
    assert judge.verdict.exit_code == CLEAN
