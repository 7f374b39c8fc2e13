"""Samples of a run, and the comparison computed from them. Pure: no broker, no clock."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.scenario import FULL, Measure, Measures, Scenario

BASELINE, SUBJECT = "kafka", "kbroker"


@dataclass(frozen=True)
class Sample:
    """Result of one turn: figures by measure key, or the reason why there are none."""

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

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> "Results":
        raw = json.loads(path.read_text())
        samples = [Sample(**sample) for sample in raw["samples"]]
        return cls(raw["machine"], raw["setup"], samples, raw.get("titles", {}))

    @classmethod
    def join(cls, runs: Sequence["Results"]) -> "Results":
        """Several runs as one; a scenario is the last run's that has it, and what differs says of which it is true."""
        owner = owners(runs)
        samples = [
            sample
            for number, run in enumerate(runs)
            for sample in run.samples
            if owner[sample.scenario] == number
        ]
        machine, setup = ([getattr(run, facts) for run in runs] for facts in ("machine", "setup"))
        titles = {name: run.titles[name] for run in runs for name in run.titles}
        return cls(_common(machine, owner), _common(setup, owner), samples, titles)

    @property
    def targets(self) -> list[str]:
        return sorted({sample.target for sample in self.samples})


def owners(runs: Sequence[Results]) -> dict[str, int]:
    """Number of the run that each scenario is taken from."""
    return {sample.scenario: number for number, run in enumerate(runs) for sample in run.samples}


def _common(facts: Sequence[dict[str, str]], owner: dict[str, int]) -> dict[str, str]:
    """Facts of all runs; where they differ, each with the scenarios that it is true of."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, number in sorted(owner.items()):
        for key, value in facts[number].items():
            found.setdefault(key, {}).setdefault(value, []).append(name)
    return {
        key if len(names) == len(owner) else f"{key} ({', '.join(names)})": value
        for key, values in found.items()
        for value, names in values.items()
    }


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

    @property
    def met(self) -> bool | None:
        """None: there is no goal, or nothing to hold against it."""
        value = self.subject if self.measure.absolute else self.ratio
        return None if value is None else self.measure.meets(value)


def figures(samples: Iterable[Sample], scenario: str, target: str, key: str) -> dict[int, float]:
    """The figure of each round."""
    return {
        sample.round: sample.figures[key]
        for sample in samples
        if sample.scenario == scenario and sample.target == target and key in sample.figures
    }


def advantage(row: Row) -> float | None:
    """How many times better the subject is: the ratio of a rate, its inverse for a cost; None without one."""
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
            rows.append(_row(scenario.name, title, measure, baseline, subject))
    return rows


def dear_generators(rows: Iterable[Row]) -> list[str]:
    """Scenarios in which the load generator used more CPU than a broker: there it may be what limits the rate."""
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
