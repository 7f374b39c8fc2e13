"""A scenario: its name, its measures with their goals, and the function that runs a turn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.size import Size
from bench.turn import Measures, Turn


@dataclass(frozen=True)
class Measure:
    """One figure of a scenario. `goal` bounds kbroker / Apache Kafka, or kbroker's own figure if
    `absolute`."""

    key: str
    label: str
    unit: str
    better: Literal["higher", "lower"]
    goal: float | None = None
    absolute: bool = False

    def meets(self, value: float) -> bool | None:
        """Whether the ratio (or the figure, when absolute) reaches the goal; None without a
        goal."""
        if self.goal is None:
            return None
        return value >= self.goal if self.better == "higher" else value <= self.goal


@dataclass(frozen=True)
class Limit:
    """A bare C loop that only does the unavoidable work of one of a scenario's measures, in the
    same turn."""

    key: str
    """The measure."""
    loop: str
    """The loop's work, as the page describes it."""
    run: Callable[[Turn], float]
    """The loop's figure, in the measure's unit; the turn has just done the scenario."""
    goal: float | None = None
    """Share of the loop's figure that kbroker is to reach."""


@dataclass(frozen=True)
class Scenario:
    """Work that both brokers do in turn.

    `title` may hold fields of the size, such as `{partitions:,}`: a short run then says what it did.
    """

    name: str
    title: str
    measures: tuple[Measure, ...]
    run: Callable[[Turn], Measures]
    new_broker: bool = False
    """The turn starts a broker of its own (starts, restarts, recovery): there is nothing to warm
    up."""
    kind: str = ""
    """Name of the kind of work. A JVM that has run another scenario of the kind needs a shorter
    warm-up."""
    limit: Limit | None = None

    def title_at(self, size: Size) -> str:
        return self.title.format(**vars(size), many=size.many_partitions, twice=2 * size.partitions)


def rate(goal: float | None = None, unit: str = "messages/s") -> Measure:
    return Measure("rate", "rate", unit, "higher", goal)


def megabytes(goal: float | None = None) -> Measure:
    return Measure("mb_per_s", "throughput", "MB/s", "higher", goal)


def cpu_per_message(goal: float | None = None, what: str = "message") -> Measure:
    return Measure("cpu_us", f"broker CPU per {what}", "µs", "lower", goal)


def cpu_per_gb(goal: float | None = None) -> Measure:
    return Measure("cpu_s_per_gb", "broker CPU per GB", "s/GB", "lower", goal)


def latency(quantile: str, goal: float | None = None, what: str = "ack") -> Measure:
    """`quantile` is one of p50, p99, p999."""
    label = "p99.9" if quantile == "p999" else quantile
    return Measure(f"{what.replace(' ', '_')}_{quantile}_ms", f"{what} {label}", "ms", "lower", goal)


def client_cpu(unit: str = "µs") -> Measure:
    """CPU of the load generator, in the unit of the broker's CPU: it should be lower than the
    broker's."""
    return Measure("client_cpu", "load generator CPU", unit, "lower")


def lateness() -> Measure:
    """Delay of the load generator. It is part of the latencies, so it should be small."""
    return Measure("late_p99_ms", "of it sent late by the generator, p99", "ms", "lower")
