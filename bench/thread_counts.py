"""Apache Kafka's best number of threads on this machine, found before a full run."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.generator import Generator
from bench.run import running
from bench.scenarios.raw_produce import SCENARIOS
from bench.size import QUICK
from bench.targets import KafkaOptions, KafkaTarget, Target
from bench.turn import Measures, Turn
from bench.warm_up import warm_up

TRIED = ((3, 8), (2, 4), (2, 2), (1, 2))
"""num.network.threads and num.io.threads; first Kafka's own."""
WARM_SECONDS, TURN_SECONDS = 12, 3
SCENARIO = SCENARIOS[0]


def best_threads(options: KafkaOptions, folder: Path, generator: Generator) -> tuple[KafkaOptions, str]:
    """The options with the highest rate of small requests after a warm-up, and a line that says
    what was tried."""
    rates: dict[tuple[int, int], float] = {}
    for network, io in TRIED:
        place = folder / f"threads-{network}-{io}"
        place.mkdir(parents=True)
        tried = replace(options, network_threads=network, io_threads=io)
        with running(KafkaTarget(place, generator, tried)) as target:
            rates[network, io] = warm_rate(target, generator)
        shutil.rmtree(place, ignore_errors=True)
    best = max(rates, key=lambda pair: rates[pair])
    tried_text = ", ".join(f"{network}+{io}: {rate:,.0f}/s" for (network, io), rate in rates.items())
    return (
        replace(options, network_threads=best[0], io_threads=best[1]),
        f"the best of {tried_text} (network + IO threads, {SCENARIO.title})",
    )


def warm_rate(target: Target, generator: Generator) -> float:
    """Requests a second, the median of two turns after the warm-up."""
    numbers = itertools.count(1)

    def measure() -> Measures:
        turn = Turn(target, generator, replace(QUICK, seconds=TURN_SECONDS), next(numbers), set())
        figures = SCENARIO.run(turn)
        turn.clean_up()
        return figures

    warm_up(SCENARIO, measure, WARM_SECONDS)
    return median(measure()["rate"] for _ in range(2))
