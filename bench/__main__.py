"""`python -m bench`: kbroker and Apache Kafka take turns on the same work; a table, and
docs/benchmarks.md."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.congestion import CongestionUnavailable
from bench.generator import CACHE, LoadFailed
from bench.report import PAGE, generator_note, summary, write_page
from bench.results import LIMIT, Results, Sample, compare, failures
from bench.scenario import Scenario
from bench.scenarios import SCENARIOS
from bench.session import NothingToResume, Plan, begin, latest, measure, new_file
from bench.size import FULL, QUICK
from bench.tables import figure, text_table
from bench.targets import KafkaOptions, TargetFailed
from tests.peer.artifacts import PeerUnavailable


def parser() -> argparse.ArgumentParser:
    names = " ".join(scenario.name for scenario in SCENARIOS)
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=f"scenarios: {names}")
    made.add_argument(
        "--quick", action="store_true", help="one short round of each scenario: a check during development"
    )
    made.add_argument(
        "--rounds", type=int, help="maximum number of rounds; medians are reported (3, with --quick 1)"
    )
    made.add_argument(
        "--minutes", type=float, default=45, help="minutes after which no further turn begins (45)"
    )
    made.add_argument(
        "--resume", action="store_true", help="continue the last run: only scenarios without a sample"
    )
    made.add_argument("--scenario", action="extend", nargs="+", metavar="NAME", help="only these")
    made.add_argument("--target", choices=("kafka", "kbroker", "both"), default="both")
    made.add_argument(
        "--profile", action="store_true", help="profile the broker in each scenario with perf (and py-spy)"
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
        "--folder", type=Path, default=CACHE, help="folder for the brokers' data during the run"
    )
    made.add_argument(
        "--write", action="store_true", help=f"write {PAGE.name} even when scenarios are missing"
    )
    made.add_argument("--page", type=Path, default=PAGE, help="the page to write, with its samples beside it")
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
    if LIMIT in sample.figures:
        parts.append(f"a bare loop {figure(sample.figures[LIMIT])}")
    print(f"{head} {' · '.join(parts)}   ({sample.figures['turn_seconds']:.1f} s)", flush=True)


def threads(text: str) -> tuple[int, int]:
    """ "3,8": network and IO threads."""
    network, io = text.split(",")
    return int(network), int(io)


def plan_of(options: argparse.Namespace) -> Plan:
    size, rounds = (QUICK, options.rounds or 1) if options.quick else (FULL, options.rounds or 3)
    kafka = KafkaOptions(options.heap, options.profile)
    if options.kafka_threads:
        network, io = options.kafka_threads
        kafka = replace(kafka, network_threads=network, io_threads=io)
    folder = options.folder.resolve()
    return Plan(
        chosen(options.scenario),
        ["kafka", "kbroker"] if options.target == "both" else [options.target],
        size,
        rounds,
        options.minutes * 60,
        folder,
        kafka,
        options.congestion,
        folder / "profiles" if options.profile else None,
        chooses_threads=not (options.kafka_threads or options.quick),
    )


def report(results: Results, scenarios: list[Scenario]) -> None:
    rows = compare(results.samples, scenarios, results.titles)
    print(f"\n{text_table(rows)}\n\n{generator_note(rows)}\n{summary(rows)}")


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser()
    options = made.parse_args(arguments)
    if options.write and options.quick and options.page == PAGE:
        made.error(f"{PAGE.name} shows turns of full length only: --page FILE for another one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that no broker is left behind
    begun, plan = time.monotonic(), plan_of(options)
    by_name = {scenario.name: scenario for scenario in plan.scenarios}
    try:
        path, results = latest(plan) if options.resume else (new_file(), begin(plan))
        print(f"samples: {path}", flush=True)
        left_out = measure(plan, results, path, lambda sample: show(sample, by_name[sample.scenario]))
    except (LoadFailed, TargetFailed, PeerUnavailable, CongestionUnavailable, NothingToResume) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    report(results, list(plan.scenarios))
    if left_out:
        print("no time was left for:", ", ".join(f"{name} (round {number})" for number, name in left_out))
    print(f"{time.monotonic() - begun:.0f} s; all samples: {path}")
    complete = not (options.quick or options.scenario or options.profile) and options.target == "both"
    if complete or options.write:
        print("\n".join(f"wrote {written}" for written in write_page(results, options.page)))
    return 1 if failures(results.samples) else 0


if __name__ == "__main__":
    sys.exit(main())
