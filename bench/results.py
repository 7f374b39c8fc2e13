"""Samples of a run, and the comparison computed from them. Pure: no broker, no clock."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

from bench.scenario import Measure, Scenario
from bench.size import FULL
from bench.turn import Measures

BASELINE, SUBJECT = "kafka", "kbroker"


@dataclass(frozen=True)
class Sample:
    """Result of one turn: figures by the key of their measure, or the reason why they are
    missing."""

    round: int
    target: str
    scenario: str
    figures: Measures = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Results:
    """A run: where, how, and every sample."""

    machine: dict[str, str]
    setup: dict[str, str]
    samples: list[Sample]
    titles: dict[str, str] = field(default_factory=dict)
    """Scenario's title by its name, at the size of the run."""
    threads: list[int] = field(default_factory=list)
    """Apache Kafka's network and IO threads in this run, when they were chosen in it."""

    def save(self, path: Path) -> None:
        """Called after each turn, so an interrupted run keeps its samples."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self), indent=1))
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Results":
        raw = json.loads(path.read_text())
        samples = [Sample(**sample) for sample in raw["samples"]]
        return cls(raw["machine"], raw["setup"], samples, raw.get("titles", {}), raw.get("threads", []))

    @property
    def targets(self) -> list[str]:
        return sorted({sample.target for sample in self.samples})


@dataclass(frozen=True)
class Row:
    """One line of the comparison; a figure is None when that broker has no sample of it."""

    scenario: str
    title: str
    measure: Measure
    baseline: float | None
    subject: float | None
    ratio: float | None
    """Ratio of the medians."""
    spread: tuple[float, float] | None
    """Lowest and highest ratio of a round in which both have a figure."""
    limit: float | None = None
    """The median figure of the bare loop."""
    baseline_share: float | None = None
    """The median share of the loop's figure of the same turn."""
    subject_share: float | None = None
    share_goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a figure."""
        value = self.subject if self.measure.absolute else self.ratio
        return None if value is None else self.measure.meets(value)

    @property
    def share_met(self) -> bool | None:
        """Whether the goal for the share of the limit is met; None without one."""
        if self.share_goal is None or self.subject_share is None:
            return None
        return self.subject_share >= self.share_goal


def figures(samples: Iterable[Sample], scenario: str, target: str, key: str) -> dict[int, float]:
    """The figure of each round."""
    return {
        sample.round: sample.figures[key]
        for sample in samples
        if sample.scenario == scenario and sample.target == target and key in sample.figures
    }


LIMIT = "limit"
"""Key of the bare loop's figure in the samples, in the unit of the measure that it is a limit
of."""


def share_of_limit(figure: float, limit: float, measure: Measure) -> float:
    """1 where the limit is reached, less where the figure is worse."""
    part, whole = (figure, limit) if measure.better == "higher" else (limit, figure)
    return part / whole if whole else 0.0


def advantage(row: Row) -> float | None:
    """The factor by which the subject is better: the ratio of a rate, its inverse for a cost; None
    without one."""
    if not row.ratio:
        return None
    return row.ratio if row.measure.better == "higher" else 1 / row.ratio


GENERATOR_KEYS = ("client_cpu", "late_p99_ms")
"""Figures of the load generator, not of a broker."""


def losses(rows: Iterable[Row]) -> list[Row]:
    """Rows in which the subject is behind the baseline, the largest loss first."""
    behind = [
        (better, row)
        for row in rows
        if row.measure.key not in GENERATOR_KEYS and (better := advantage(row)) is not None and better < 1
    ]
    return [row for _, row in sorted(behind, key=lambda pair: pair[0])]


def ratio_of(subject: float | None, baseline: float | None) -> float | None:
    """subject / baseline; None when either is missing or the baseline is 0."""
    return None if subject is None or not baseline else subject / baseline


def compare(
    samples: Sequence[Sample], scenarios: Iterable[Scenario], titles: Mapping[str, str] | None = None
) -> list[Row]:
    """Medians over the rounds and their ratio, for every measure that has a sample.

    titles: of the scenarios, at the size of their run; those of a full run where one is missing.
    """
    titles = titles or {}
    rows = []
    for scenario in scenarios:
        for measure in scenario.measures:
            baseline = figures(samples, scenario.name, BASELINE, measure.key)
            subject = figures(samples, scenario.name, SUBJECT, measure.key)
            if not baseline and not subject:
                continue
            title = titles.get(scenario.name) or scenario.title_at(FULL)
            row = _row(scenario.name, title, measure, baseline, subject)
            rows.append(_limited(row, scenario, samples))
    return rows


def _limited(row: Row, scenario: Scenario, samples: Sequence[Sample]) -> Row:
    """The row with its limit, when its measure has one."""
    limit = scenario.limit
    if limit is None or limit.key != row.measure.key:
        return row
    loops = [figures(samples, scenario.name, target, LIMIT) for target in (BASELINE, SUBJECT)]
    shares: list[float | None] = []
    for target, loop in zip((BASELINE, SUBJECT), loops, strict=True):
        found = figures(samples, scenario.name, target, limit.key)
        each = [share_of_limit(found[n], loop[n], row.measure) for n in found if n in loop]
        shares.append(median(each) if each else None)
    both = [figure for loop in loops for figure in loop.values()]
    return replace(
        row,
        limit=median(both) if both else None,
        baseline_share=shares[0],
        subject_share=shares[1],
        share_goal=limit.goal,
    )


def dear_generators(rows: Iterable[Row]) -> list[str]:
    """Scenarios in which the load generator used more CPU than a broker: there it may be what
    limits the rate."""
    costs: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.measure.key in ("client_cpu", "cpu_us", "cpu_s_per_gb"):
            costs.setdefault(row.scenario, {})["client" if row.measure.key == "client_cpu" else "broker"] = (
                row
            )
    dear = []
    for scenario, found in costs.items():
        if len(found) == 2:
            pairs = (
                (found["client"].baseline, found["broker"].baseline),
                (found["client"].subject, found["broker"].subject),
            )
            if any(client is not None and broker is not None and client > broker for client, broker in pairs):
                dear.append(scenario)
    return dear


def _row(
    scenario: str, title: str, measure: Measure, baseline: dict[int, float], subject: dict[int, float]
) -> Row:
    low = median(baseline.values()) if baseline else None
    high = median(subject.values()) if subject else None
    rounds = [subject[number] / baseline[number] for number in subject if baseline.get(number)]
    spread = (min(rounds), max(rounds)) if rounds else None
    return Row(scenario, title, measure, low, high, ratio_of(high, low), spread)


def failures(samples: Iterable[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.failure]
