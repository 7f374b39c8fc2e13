"""The months ahead of a workload that grows by the same share every month: the used share of each
resource, and the resource that runs out first. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuning.situation import Situation
from tuning.sizing.demand import Need, needs, share_of
from tuning.sizing.supply import FILLED, Supply

MONTH_S = 365.25 / 12 * 86400
MAX_MONTHS = 60


@dataclass(frozen=True, slots=True)
class Month:
    """shares: of each resource's usable part; None if its size is unknown."""

    number: int
    write_rate: float
    shares: Mapping[str, float | None]

    @property
    def worst(self) -> str:
        """The resource with the largest share."""
        return max(self.shares, key=lambda resource: self.shares[resource] or 0.0)

    @property
    def fits(self) -> bool:
        """Whether every known resource is enough."""
        return all((share or 0.0) <= 1 for share in self.shares.values())


@dataclass(frozen=True, slots=True)
class Growth:
    """months: from today to the first that does not fit, MAX_MONTHS at most. ends: the need that is
    too large in the last of them; None if all fit."""

    percent: float
    months: tuple[Month, ...]
    ends: Need | None

    def as_json(self) -> dict[str, object]:
        """The months as JSON for scripts."""
        months = [
            {"month": each.number, "write_rate": each.write_rate, "shares": dict(each.shares)}
            for each in self.months
        ]
        ends = (
            None if self.ends is None else {"month": self.months[-1].number, "resource": self.ends.resource}
        )
        return {"percent": self.percent, "months": months, "ends": ends}


def growth(situation: Situation, supply: Supply, percent: float) -> Growth:
    """The rate of writes grows, and with it what is read; partitions and connections stay."""
    months: list[Month] = []
    written, rate = supply.held_bytes, situation.workload.write_rate
    for number in range(MAX_MONTHS + 1):
        grown = replace(situation, workload=replace(situation.workload, write_rate=rate))
        found = {need.resource: need for need in needs(grown, supply)}
        months.append(
            Month(number, rate, {name: _share(each, written, supply) for name, each in found.items()})
        )
        if not months[-1].fits:
            return Growth(percent, tuple(months), found[months[-1].worst])
        written += grown.workload.disk_write_rate * MONTH_S
        rate *= 1 + percent / 100
    return Growth(percent, tuple(months), None)


def _share(need: Need, written: float, supply: Supply) -> float | None:
    """A disk whose records are kept forever has what was written so far, before today, too."""
    return share_of(written, supply.disk_bytes, FILLED) if need.endless else need.share
