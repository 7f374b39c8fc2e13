"""One run from its first turn to its last, saved after each: what was cut is continued, or reported
as it is."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.congestion import congestion_control
from bench.generator import CACHE, Generator
from bench.machine import describe
from bench.results import Results, Sample
from bench.run import Run, make_generator, make_targets, work_folder
from bench.scenario import Scenario
from bench.schedule import DIFFER, EVERYWHERE, Schedule
from bench.size import Size
from bench.targets import KafkaOptions
from bench.thread_counts import best_threads

SAVED = CACHE / "results"
TURNS, THREADS = "turns", "Apache Kafka's threads"


class NothingToResume(Exception):
    """No run of the same length was saved."""


@dataclass(frozen=True)
class Plan:
    """The scenarios to be measured, and their sizes."""

    scenarios: Sequence[Scenario]
    names: Sequence[str]
    """Names of the brokers."""
    size: Size
    rounds: int
    budget_s: float
    folder: Path
    kafka: KafkaOptions
    congestion: str
    profiles: Path | None = None
    chooses_threads: bool = False

    @property
    def turns(self) -> str:
        """The length of a turn, as the page says it."""
        return f"{self.size.seconds:g} s after {self.size.warm_seconds:g} s of the same load"

    @property
    def rounds_text(self) -> str:
        if self.rounds <= EVERYWHERE:
            return str(self.rounds)
        return f"{EVERYWHERE}, and up to {self.rounds} where they differ by more than {DIFFER:.0%} in the first measure"


def new_file(folder: Path | None = None) -> Path:
    return (folder or SAVED) / f"{time.strftime('%Y%m%d-%H%M%S')}.json"


def begin(plan: Plan) -> Results:
    """A run without samples."""
    titles = {scenario.name: scenario.title_at(plan.size) for scenario in plan.scenarios}
    return Results(describe(plan.folder), {"rounds": plan.rounds_text, TURNS: plan.turns}, [], titles)


def latest(plan: Plan, folder: Path | None = None) -> tuple[Path, Results]:
    """The run that was saved last, if its turns are as long as the plan's. Raises
    NothingToResume."""
    for path in sorted((folder or SAVED).glob("*.json"), reverse=True):
        found = Results.load(path)
        if found.setup.get(TURNS) == plan.turns:
            titles = {scenario.name: scenario.title_at(plan.size) for scenario in plan.scenarios}
            return path, replace(found, titles={**found.titles, **titles})
        break
    raise NothingToResume(f"the last run that was saved is none of turns of {plan.turns}")


def measure(
    plan: Plan, results: Results, path: Path, show: Callable[[Sample], None]
) -> list[tuple[int, str]]:
    """Adds the samples that are missing to the results, and saves them after each; returns the
    rounds and scenarios for which no time was left."""
    generator = make_generator()
    schedule = Schedule(plan.scenarios, plan.names, plan.rounds, plan.budget_s, results.samples)
    with congestion_control(plan.congestion) as congestion, work_folder(plan.folder) as folder:
        kafka = _with_threads(plan, results, folder, generator) if "kafka" in plan.names else plan.kafka
        results.setup.update(
            {"Apache Kafka": str(kafka), "congestion control of all connections": congestion}
        )
        targets = make_targets(plan.names, folder, generator, kafka, congestion)
        run = Run(targets, generator, plan.size, plan.profiles)
        for sample in run.samples(schedule):
            results.samples.append(sample)
            if run.warmed:
                low, high = min(run.warmed.values()), max(run.warmed.values())
                results.setup["unmeasured work of the JVM"] = (
                    f"{low:.0f} to {high:.0f} s before each scenario"
                )
            results.save(path)
            show(sample)
    return schedule.left_out


def _with_threads(plan: Plan, results: Results, folder: Path, generator: Generator) -> KafkaOptions:
    """Apache Kafka's options; its best number of threads is found once in a run."""
    if plan.chooses_threads and not results.threads:
        best, results.setup[THREADS] = best_threads(plan.kafka, folder, generator)
        results.threads[:] = [best.network_threads, best.io_threads]
    if not results.threads:
        return plan.kafka
    network, io = results.threads
    return replace(plan.kafka, network_threads=network, io_threads=io)
