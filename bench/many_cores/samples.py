"""The observations of a run as JSON, beside the page that is made of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.many_cores.model import Counts, Observation


@dataclass(frozen=True)
class Samples:
    """Place and time, and the observations of each work: every round, in the order of the
    rounds."""

    machine: dict[str, str]
    observed: dict[str, list[Observation]]

    def medians(self, work: str, *, fitted: bool, largest_fitted: int = 2) -> list[Observation]:
        """One observation for each pair of counts, of the medians of its rounds. fitted: those of
        one and two processes of each kind, else the larger ones."""
        by_counts: dict[Counts, list[Observation]] = {}
        for each in self.observed.get(work, []):
            by_counts.setdefault(each.counts, []).append(each)
        return [
            _middle(counts, rounds)
            for counts, rounds in by_counts.items()
            if (max(counts.network, counts.io) <= largest_fitted) == fitted
        ]

    def save(self, path: Path) -> None:
        """A run that is cut has its last state on the disk."""
        path.parent.mkdir(parents=True, exist_ok=True)
        works = {work: [_to_json(each) for each in found] for work, found in self.observed.items()}
        path.write_text(json.dumps({"machine": self.machine, "observed": works}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Samples":
        raw = json.loads(path.read_text())
        works = {work: [_from_json(each) for each in found] for work, found in raw["observed"].items()}
        return cls(raw["machine"], works)


def _middle(counts: Counts, rounds: list[Observation]) -> Observation:
    cost = {role: median(each.cost_us[role] for each in rounds) for role in rounds[0].cost_us}
    client, rate = median(each.client_us for each in rounds), median(each.rate for each in rounds)
    return Observation(counts, cost, client, rate)


def _to_json(observed: Observation) -> dict[str, Any]:
    return {
        "network": observed.counts.network,
        "io": observed.counts.io,
        "cost_us": {role: round(cost, 4) for role, cost in observed.cost_us.items()},
        "client_us": round(observed.client_us, 4),
        "rate": round(observed.rate, 1),
    }


def _from_json(raw: dict[str, Any]) -> Observation:
    return Observation(Counts(raw["network"], raw["io"]), raw["cost_us"], raw["client_us"], raw["rate"])
