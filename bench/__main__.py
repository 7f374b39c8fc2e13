"""`python -m bench`: kbroker and Apache Kafka take turns on the same work; a table, and docs/benchmarks.md."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.congestion import CongestionUnavailable, congestion_control
from bench.generator import CACHE, LoadFailed
from bench.machine import describe
from bench.report import PAGE, figure, generator_note, summary, text_table, write_page
from bench.results import Results, Sample, compare, failures
from bench.run import Run, make_generator, make_targets, work_folder
from bench.scenario import FULL, QUICK, Scenario, Size
from bench.scenarios import SCENARIOS
from bench.targets import KafkaOptions, TargetFailed
from bench.thread_counts import best_threads
from tests.peer.artifacts import PeerUnavailable


def parser() -> argparse.ArgumentParser:
    names = " ".join(scenario.name for scenario in SCENARIOS)
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=f"scenarios: {names}")
    made.add_argument("--quick", action="store_true", help="one short round of each: a guard while working")
    made.add_argument("--rounds", type=int, help="rounds; the medians are reported (3, with --quick 1)")
    made.add_argument("--scenario", action="extend", nargs="+", metavar="NAME", help="only these")
    made.add_argument("--target", choices=("kafka", "kbroker", "both"), default="both")
    made.add_argument(
        "--profile", action="store_true", help="perf (and py-spy) of the broker in each scenario"
    )
    made.add_argument("--heap", default="1g", help="heap of Apache Kafka (1g)")
    made.add_argument(
        "--kafka-threads",
        type=threads,
        metavar="N,M",
        help="its network and IO threads (the best of several)",
    )
    made.add_argument(
        "--congestion", default="", help="TCP congestion control of all (cubic, if it may be set)"
    )
    made.add_argument(
        "--folder", type=Path, default=CACHE, help="where the brokers keep their data meanwhile"
    )
    made.add_argument(
        "--write", action="store_true", help=f"write {PAGE.name} even when the run is not a full one"
    )
    return made


def chosen(names: Sequence[str] | None) -> list[Scenario]:
    """Scenarios by name; a name may be a prefix. Raises SystemExit on an unknown one."""
    if not names:
        return list(SCENARIOS)
    for name in names:
        if not any(scenario.name.startswith(name) for scenario in SCENARIOS):
            raise SystemExit(f"no scenario {name!r}; there are: {' '.join(s.name for s in SCENARIOS)}")
    return [scenario for scenario in SCENARIOS if scenario.name.startswith(tuple(names))]


def show(sample: Sample, scenario: Scenario) -> None:
    """One line per turn, as it ends."""
    head = f"  {sample.round}  {sample.scenario:<17} {sample.target:<8}"
    if sample.failure:
        print(f"{head} FAILED: {sample.failure}", flush=True)
        return
    parts = [
        f"{measure.label} {figure(sample.figures[measure.key])}{' ' + measure.unit if measure.unit else ''}"
        for measure in scenario.measures
        if measure.key in sample.figures
    ]
    print(f"{head} {' · '.join(parts)}   ({sample.figures['turn_seconds']:.1f} s)", flush=True)


def threads(text: str) -> tuple[int, int]:
    """ "3,8": network and IO threads."""
    network, io = text.split(",")
    return int(network), int(io)


def measure_all(
    options: argparse.Namespace, size: Size, rounds: int, scenarios: list[Scenario]
) -> tuple[list[Sample], dict[str, str]]:
    """Samples, and facts of the setup."""
    by_name = {scenario.name: scenario for scenario in scenarios}
    names = ["kafka", "kbroker"] if options.target == "both" else [options.target]
    generator = make_generator()
    samples = []
    with (
        congestion_control(options.congestion) as congestion,
        work_folder(options.folder) as folder,
    ):
        kafka = KafkaOptions(options.heap, options.profile)
        setup = {"rounds": f"{rounds} of {size.seconds:g} s after {size.warm_seconds:g} s of warm-up"}
        if options.kafka_threads:
            kafka = replace(
                kafka, network_threads=options.kafka_threads[0], io_threads=options.kafka_threads[1]
            )
        elif "kafka" in names and not options.quick:
            kafka, setup["Apache Kafka's threads"] = best_threads(kafka, folder, generator)
        targets = make_targets(names, folder, generator, kafka, congestion)
        run = Run(targets, generator, size, options.folder / "profiles" if options.profile else None)
        for sample in run.rounds(scenarios, rounds):
            show(sample, by_name[sample.scenario])
            samples.append(sample)
    setup |= {"Apache Kafka": str(kafka), "congestion control of all connections": congestion}
    if run.warmed:
        least, most = min(run.warmed.values()), max(run.warmed.values())
        setup["unmeasured work of the JVM"] = f"{least:.0f} to {most:.0f} s before each figure"
    return samples, setup


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that no broker is left behind
    size, rounds = (QUICK, options.rounds or 1) if options.quick else (FULL, options.rounds or 3)
    scenarios = chosen(options.scenario)
    options.folder = options.folder.resolve()
    begun = time.monotonic()
    try:
        samples, setup = measure_all(options, size, rounds, scenarios)
    except (LoadFailed, TargetFailed, PeerUnavailable, CongestionUnavailable) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    titles = {scenario.name: scenario.title_at(size) for scenario in scenarios}
    results = Results(describe(options.folder), setup, samples, titles)
    saved = CACHE / "results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    results.save(saved)
    rows = compare(samples, scenarios, titles)
    print(f"\n{text_table(rows)}\n\n{generator_note(rows)}")
    print(f"{summary(rows)}; {time.monotonic() - begun:.0f} s; all samples: {saved}")
    complete = not (options.quick or options.scenario or options.profile) and options.target == "both"
    if complete or options.write:
        print("\n".join(f"wrote {path}" for path in write_page([results])))
    return 1 if failures(samples) else 0


if __name__ == "__main__":
    sys.exit(main())
