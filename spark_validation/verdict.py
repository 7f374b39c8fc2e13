"""The verdict of a judgement: a result per anomaly, and the exit code."""

from dataclasses import dataclass, field
from typing import Any

from spark_validation.anomalies import ANOMALIES
from spark_validation.options import CANNOT_JUDGE, CLEAN, CONVICTED

LISTED = 10_000  # findings kept for each check; the count beyond is not exact
EXAMPLES = 20


def listed(found: Any) -> list[dict[str, Any]]:
    """Rows of a frame of findings, LISTED at most of those that convict: none of them is left out
    for one that is only counted."""
    rows = [row.asDict() for row in found.limit(LISTED).collect()]
    counted = [row for row in rows if not row["convicts"]]
    if len(rows) < LISTED or not counted:
        return rows
    return [*(row.asDict() for row in found.where("convicts").limit(LISTED).collect()), *counted]


class CannotJudge(Exception):
    """The evidence does not allow a verdict; the text says what is missing and what brings it."""


@dataclass
class Result:
    """One anomaly. judged: False with a reason when the evidence holds nothing to judge it by.
    basis: how many rows the check compared, where they are counted."""

    anomaly: str
    judged: bool = True
    reason: str = ""
    convicting: list[dict[str, Any]] = field(default_factory=list)
    counted: list[dict[str, Any]] = field(default_factory=list)
    truncated: bool = False
    basis: int | None = None

    @property
    def verdict(self) -> str:
        if self.convicting:
            return "convicted"
        if not self.judged:
            return "not judged"
        return "counted" if self.counted else "clean"

    def kinds(self) -> dict[str, int]:
        """Findings by kind."""
        found: dict[str, int] = {}
        for row in (*self.convicting, *self.counted):
            found[row["kind"]] = found.get(row["kind"], 0) + 1
        return found


@dataclass
class Verdict:
    """The results in order of the anomalies, and what was measured on the way. missing: why a run
    without a finding is not clean all the same."""

    results: dict[str, Result] = field(default_factory=lambda: {a.id: Result(a.id) for a in ANOMALIES})
    seconds: dict[str, float] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        if any(result.convicting for result in self.results.values()):
            return CONVICTED
        return CANNOT_JUDGE if self.missing else CLEAN

    @property
    def weakest(self) -> Result | None:
        """The judged anomaly that rests on the fewest rows."""
        counted = [result for result in self.results.values() if result.judged and result.basis is not None]
        return min(counted, key=lambda result: result.basis or 0, default=None)

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Findings of a check."""
        for row in rows:
            result = self.results[row["anomaly"]]
            (result.convicting if row["convicts"] else result.counted).append(row)
            result.truncated |= len(rows) >= LISTED

    def skip(self, anomaly: str, reason: str) -> None:
        self.results[anomaly].judged = False
        self.results[anomaly].reason = reason

    def convicted(self) -> dict[str, int]:
        """Anomaly to number of convicting findings, of those that have any."""
        return {name: len(result.convicting) for name, result in self.results.items() if result.convicting}
