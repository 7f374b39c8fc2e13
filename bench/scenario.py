"""A scenario: its name, its measures with their goals, and the function that runs a turn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bench.turn import Turn

Measures = dict[str, float]


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
    """A bare C loop that does only what physics asks for one of a scenario's measures, in the same
    turn."""

    key: str
    """The measure."""
    loop: str
    """What the loop does, as the page says it."""
    run: Callable[["Turn"], float]
    """Gives the loop's figure, in the measure's unit; the turn has just done the scenario."""
    goal: float | None = None
    """Share of the loop's figure that kbroker is to reach."""


@dataclass(frozen=True)
class Scenario:
    """A piece of work that both brokers do in turn.

    `title` may hold fields of the size, such as `{partitions:,}`: a short run then says what it did.
    """

    name: str
    title: str
    measures: tuple[Measure, ...]
    run: Callable[["Turn"], Measures]
    new_broker: bool = False
    """The turn starts a broker of its own (starts, restarts, recovery): there is nothing to warm
    up."""
    kind: str = ""
    """Of its work: a JVM that has done other work of the kind is warm but for what is this
    scenario's own."""
    limit: Limit | None = None

    def title_at(self, size: "Size") -> str:
        return self.title.format(**vars(size), many=size.many_partitions, twice=2 * size.partitions)


@dataclass(frozen=True)
class Size:
    """Duration and amount of load. Warm-up is never part of a figure."""

    warm_seconds: float
    seconds: float
    produced_bytes: int
    """No produce scenario writes more, so that write-back of one turn does not meet the next."""
    cached_bytes: int
    cold_bytes: int
    partitions: int
    """Number in the scenarios with many. Apache Kafka flushes several small files for each."""
    settle_seconds: float
    sync: bool
    jvm_warm_seconds: float = 0
    """A JVM does the same work for at least so long before its first measured turn, and longer
    while the figure still improves."""
    jvm_again_seconds: float = 0
    """The same for a scenario whose kind of work this JVM has been warmed up with before."""
    limit_seconds: float = 0.3
    """Of a bare loop."""

    @property
    def many_partitions(self) -> int:
        """Number in the scenario with most of them."""
        return 10 * self.partitions


FULL = Size(
    1.5, 4, 2 << 30, 2 << 30, 3 << 30, 1000, settle_seconds=2, sync=True, jvm_warm_seconds=20,
    jvm_again_seconds=5, limit_seconds=1,
)  # fmt: skip
QUICK = Size(0.6, 1.0, 384 << 20, 192 << 20, 192 << 20, 200, settle_seconds=0.5, sync=False)


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
    """Cost of the load generator itself, in the unit of the broker's CPU: it must stay below."""
    return Measure("client_cpu", "load generator CPU", unit, "lower")


def lateness() -> Measure:
    """How late the load generator itself was: part of the latencies, so it should be a small
    one."""
    return Measure("late_p99_ms", "of it sent late by the generator, p99", "ms", "lower")
