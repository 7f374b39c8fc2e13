"""The answer in a few lines: whether the workload fits, which resource runs out first and at which
rate, and the remedy."""

import math
from dataclasses import dataclass, replace

from kbroker.config.processes import MAX_NETWORK_PROCESSES
from tuning.situation import Situation
from tuning.sizing.demand import Need, cache_horizon_s, cpu_cores, needs
from tuning.sizing.supply import STEADY, Supply

MAX_FACTOR = 1e6
STEPS = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """first: the resource that runs out first as the rate grows; those that run out at any rate are
    `endless` among the needs. breaks_at: the rate of writes, in bytes/s, at which it does, None if even
    the fixed parts do not fit. network_processes, io_workers: as many as the workload keeps busy.
    notes: the limits of the model."""

    needs: tuple[Need, ...]
    first: Need
    breaks_at: float | None
    horizon_s: float | None
    network_processes: int
    io_workers: int
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether every known resource is enough."""
        return all((need.share or 0.0) <= 1 for need in self.needs)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Resources whose size is unknown."""
        return tuple(need.resource for need in self.needs if need.share is None)


def answer(situation: Situation, supply: Supply) -> Answer:
    """Result of the model."""
    all_needs = needs(situation, supply)
    coming, going = cpu_cores(situation)
    first, breaks_at = _first_to_end(situation, supply)
    return Answer(
        tuple(all_needs),
        first,
        breaks_at,
        cache_horizon_s(situation, supply),
        max(1, min(MAX_NETWORK_PROCESSES, math.ceil((coming + going) / STEADY))),
        max(1, math.ceil(coming / 2 / STEADY)),
        tuple(_notes(situation, supply)),
    )


def _first_to_end(situation: Situation, supply: Supply) -> tuple[Need, float | None]:
    """The largest need at the highest rate that fits, and that rate, by bisection."""

    def worst(factor: float) -> Need:
        load = replace(situation.workload, write_rate=situation.workload.write_rate * factor)
        grown = needs(replace(situation, workload=load), supply)
        return max((need for need in grown if not need.endless), key=lambda need: need.share or 0.0)

    low, high = 0.0, MAX_FACTOR
    if (at_rest := worst(1e-9)).share is not None and (at_rest.share or 0.0) > 1:
        return at_rest, None
    for _ in range(STEPS):
        middle = (low + high) / 2
        if (worst(middle).share or 0.0) > 1:
            high = middle
        else:
            low = middle
    return worst(high), situation.workload.write_rate * high


def _notes(situation: Situation, supply: Supply) -> list[str]:
    load, notes = situation.workload, []
    if not situation.coefficients.measured:
        notes.append(f"Speeds are {situation.coefficients.origin}.")
    if not load.remote_clients:
        notes.append(
            "Clients on this host need cores, too: librdkafka uses one to two times the CPU of the broker."
        )
    if load.tls:
        plain = replace(situation, workload=replace(load, tls=False))
        more = sum(cpu_cores(situation)) - sum(cpu_cores(plain))
        notes.append(
            f"TLS takes {more:.2g} of the cores: every byte is copied twice more, and none is sent from the page "
            "cache. A proxy that terminates it can take them elsewhere (ADR 0012)."
        )
    if load.durable:
        least = situation.coefficients.sync_p50_s * 1000
        most = situation.coefficients.sync_p99_s * 2000
        notes.append(f"Acks wait for one to two syncs: {least:.3g} ms at best, {most:.3g} ms at worst.")
    if supply.network_rate is None and load.remote_clients:
        notes.append("The interface does not report its speed; give it by --nic 10Gbit/s.")
    return notes
