"""A broker as stations that a piece of work passes, each a role with so many processes. Pure.

A role's cost is the CPU that one piece takes in it: `alone_us`, and `per_peer_us` more for each
further process of the role that shares rings with it. No process can give more than a second of CPU
a second, and all together no more than the cores; the first bound that is reached is the rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NETWORK, IO, CONTROL, PARENT = "network", "io", "control", "parent"
ROLES = (NETWORK, IO, CONTROL, PARENT)
PEERS = {NETWORK: IO, IO: NETWORK, CONTROL: NETWORK, PARENT: NETWORK}
"""The role whose number of processes a cost depends on: a process looks at a ring for each."""
SERIAL = (CONTROL, PARENT)
"""Roles of one process."""
MAX_UTILISATION = 0.9
"""Share of a core up to which queues stay short: an M/D/1 queue is 4.5 pieces long then."""


@dataclass(frozen=True)
class Counts:
    """Processes of a broker."""

    network: int
    io: int

    def of(self, role: str) -> int:
        """Processes of a role."""
        return {NETWORK: self.network, IO: self.io}.get(role, 1)

    def __str__(self) -> str:
        return f"{self.network} + {self.io}"


@dataclass(frozen=True)
class Observation:
    """CPU of one piece of work by role, in µs, and the pieces a second, with so many processes."""

    counts: Counts
    cost_us: Mapping[str, float]
    client_us: float
    rate: float

    @property
    def total_us(self) -> float:
        return sum(self.cost_us.values())


@dataclass(frozen=True)
class Cost:
    """CPU of one role, in us for a piece of work: a line over the number of its peers."""

    alone_us: float
    per_peer_us: float

    def at(self, peers: int) -> float:
        """µs of CPU a piece."""
        return self.alone_us + self.per_peer_us * (peers - 1)


@dataclass(frozen=True)
class Model:
    """The costs of one kind of work."""

    costs: Mapping[str, Cost]

    def cost_us(self, role: str, counts: Counts) -> float:
        """CPU of a piece in the role."""
        return self.costs[role].at(counts.of(PEERS[role]))

    def total_us(self, counts: Counts) -> float:
        """CPU of a piece in the whole broker."""
        return sum(self.cost_us(role, counts) for role in self.costs)

    def bounds(self, counts: Counts, cores: int) -> dict[str, float]:
        """Pieces a second that each role and all cores together could do."""
        found = {
            role: counts.of(role) / cost * 1e6
            for role in self.costs
            if (cost := self.cost_us(role, counts)) > 0
        }
        found["cores"] = cores / self.total_us(counts) * 1e6
        return found

    def rate(self, counts: Counts, cores: int) -> tuple[float, str]:
        """Pieces a second at MAX_UTILISATION of what is reached first, and its name."""
        bounds = self.bounds(counts, cores)
        first = min(bounds, key=lambda name: bounds[name])
        return MAX_UTILISATION * bounds[first], first

    def best_counts(self, cores: int, max_count: int = 64) -> Counts:
        """The numbers of processes with the highest rate; of equal ones the fewest processes."""
        choices = [
            Counts(network, io)
            for network in range(1, min(cores, max_count) + 1)
            for io in range(1, min(cores, max_count) + 1)
        ]
        return max(choices, key=lambda each: (round(self.rate(each, cores)[0]), -each.network - each.io))

    def serial_end(self) -> tuple[float, str]:
        """Cores beyond which a role of one process ends growth, and its name; infinite without
        one."""
        ends = {role: self.costs[role].alone_us for role in SERIAL if role in self.costs}
        role = max(ends, key=lambda name: ends[name])
        total = sum(cost.alone_us for cost in self.costs.values())
        return (total / ends[role] if ends[role] > 0 else float("inf")), role


def fit(observed: Sequence[Observation]) -> Model:
    """The line of each role through its costs, by least squares. A slope is not negative: no
    process gains by a peer."""
    return Model({role: _line(_points(observed, role)) for role in ROLES})


def errors(model: Model, observed: Sequence[Observation]) -> list[float]:
    """Predicted / observed CPU of a piece, less 1."""
    return [model.total_us(each.counts) / each.total_us - 1 for each in observed]


def wait_us(cost_us: float, utilisation: float) -> float:
    """Mean time in the queue of one process whose pieces take `cost_us` and come at random
    (M/D/1, Pollaczek-Khinchine)."""
    return cost_us * utilisation / (2 * (1 - utilisation))


def _points(observed: Sequence[Observation], role: str) -> list[tuple[float, float]]:
    return [(each.counts.of(PEERS[role]) - 1, each.cost_us.get(role, 0.0)) for each in observed]


def _line(points: Sequence[tuple[float, float]]) -> Cost:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    slope = max(0.0, slope)
    return Cost(max(0.0, mean_y - slope * mean_x), slope)
