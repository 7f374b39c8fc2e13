"""`python -m bench.feature_cost metrics|authorizer|audit`: cost of a feature on the hot path.

Pairs of kbrokers with and without it run at the same time and do the same work in turn, in
alternating order. The result is CPU per request, which depends on how many requests are served at
once, and therefore varies by more than a feature costs. So the difference is that of the kernels
(`kernel_slices.py`), and its share is that of a request of the broker without the feature.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import comb
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench.generator import CACHE, LoadFailed
from bench.kernel_slices import difference, slices_of
from bench.run import Run, make_generator, running, work_folder
from bench.scenarios import SCENARIOS
from bench.size import QUICK
from bench.targets import KbrokerTarget, Target, TargetFailed
from kbroker.kernels.cache import METRICS_OFF

WORK = ("raw_50x1", "raw_50x5", "fetch_4k")
COST = "cpu_us"
SLICES, WARM_SLICES = 120, 10
"""Slices of each scenario in a pair of processes: measured ones, and unmeasured ones before
them."""
DOUBT = 0.05
"""Probability that the median is outside its bounds."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def grant_all(target: Target) -> None:
    """ACLs that allow everything to the anonymous client; a super user would need none, so nothing
    would be checked. Until then a resource without ACLs is open."""
    wildcard = [(kind, "*") for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind, name in (*wildcard, (ResourceType.BROKER, "kafka-cluster"))
    ]  # fmt: skip
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{target.port}"})
    for made in admin.create_acls(bindings).values():
        made.result(30)


def audit_folder(folder: Path) -> dict[str, str]:
    """Settings of a broker that writes its audit log into its folder."""
    return {"kbroker.audit.log.dir": str(folder / "audit")}


@dataclass(frozen=True)
class Feature:
    """settings: with it, for a broker in a folder. without: variables that switch it off. begin:
    run once the broker with it is ready. compiled: both have kernels of their own. acls: the
    kernels check permissions. limit_percent: of its cost."""

    settings: Callable[[Path], Mapping[str, str]] = lambda _: {}
    without: Mapping[str, str] = field(default_factory=dict)
    begin: Callable[[Target], None] = lambda _: None
    compiled: bool = False
    acls: bool = False
    limit_percent: float = 1.0

    @property
    def in_kernels(self) -> bool:
        """Whether the hot path does anything for it."""
        return self.compiled or self.acls


FEATURES = {
    "metrics": Feature(without={METRICS_OFF: "1"}, compiled=True),
    "authorizer": Feature(
        lambda _: {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
        begin=grant_all,
        acls=True,
        limit_percent=2.0,
    ),
    "audit": Feature(audit_folder),
}
"""The kernels without metrics count nothing: a switch of the bench alone."""


def compile_both() -> None:
    """So that no turn waits for a compiler."""
    for value in ("0", "1"):
        environment = {**os.environ, METRICS_OFF: value}
        subprocess.run([sys.executable, "-m", "kbroker.kernels.warm"], env=environment, check=True)


def measure(
    feature: Feature, pairs: int, seconds: float, folder: Path
) -> dict[str, list[tuple[float, float]]]:
    """(with, without) in µs of CPU per request, by scenario."""
    generator = make_generator()
    size = replace(QUICK, seconds=seconds)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WORK}
    with work_folder(folder) as place, ExitStack() as stack:
        targets = [KbrokerTarget(place / kind, generator) for kind in ("with", "without")]
        targets[0].extra.update(feature.settings(targets[0].folder))
        targets[1].environment.update(feature.without)
        for target, name in zip(targets, ("with", "without"), strict=True):
            target.name = name
            target.folder.mkdir(parents=True)
            stack.enter_context(running(target))
        feature.begin(targets[0])
        run = Run(targets, generator, size, None)
        for number in range(1, pairs + 1):
            for scenario in (each for each in SCENARIOS if each.name in WORK):
                order = targets if number % 2 else targets[::-1]
                costs = {target.name: run.turn(number, scenario, target).figures[COST] for target in order}
                found[scenario.name].append((costs["with"], costs["without"]))
    return found


def measure_kernels(feature: Feature, pairs: int) -> dict[str, list[float]]:
    """ns per request that kernels need more with a feature, by scenario. Each pair is of new
    processes, as each has its own layout of memory."""
    found: dict[str, list[float]] = {name: [] for name in WORK}
    for _ in range(pairs):
        with slices_of({}, feature.acls) as with_, slices_of(feature.without, acls=False) as without:
            for name, more in found.items():
                difference(with_, without, name, WARM_SLICES)
                more.append(difference(with_, without, name, SLICES))
    return found


def interval(figures: Sequence[float]) -> tuple[float, float]:
    """Bounds of the median with a confidence of 95 %, by the order of the figures alone; all of
    them if they are too few."""
    count, ordered = len(figures), sorted(figures)
    below, rank = 0.0, 0
    while 2 * (below + comb(count, rank) / 2**count) <= DOUBT:
        below += comb(count, rank) / 2**count
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[count - rank]


def verdict(bounds: tuple[float, float], limit_percent: float) -> str:
    """yes, no or undecided: whether the cost is below the limit, given the spread."""
    low, high = (100 * (bound - 1) for bound in bounds)
    if high < limit_percent:
        return "yes"
    return "no" if low >= limit_percent else "not decided by these pairs"


def row(name: str, pairs: Sequence[tuple[float, float]], limit_percent: float | None) -> str:
    """Medians, the median of the pairs' ratios with its quartiles and bounds, and the verdict, if
    they are to decide."""
    ratios = [one / other for one, other in pairs]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    with_, without = (median(side) for side in zip(*pairs, strict=True))
    bounds = interval(ratios)
    shown = [f"{100 * (each - 1):+.1f}" for each in (middle, low, high, *bounds)]
    decided = "by kernels" if limit_percent is None else verdict(bounds, limit_percent)
    return (
        f"| {name} | {with_:.3f} µs | {without:.3f} µs | {shown[0]} % | {shown[1]} to {shown[2]} % "
        f"| {shown[3]} to {shown[4]} % | {decided} |"
    )


def kernel_row(name: str, pairs: Sequence[tuple[float, float]], more: Sequence[float], limit: float) -> str:
    """CPU of a request without the feature, what the kernels need more with it, and its share, both
    with bounds, and the verdict. limit: percent."""
    whole_ns = 1000 * median(without for _, without in pairs)
    nanoseconds = (median(more), *interval(more))
    percents = [100 * each / whole_ns for each in nanoseconds]
    shown = [f"{each:+.1f}" for each in nanoseconds] + [f"{each:+.2f}" for each in percents]
    bounds = 1 + percents[1] / 100, 1 + percents[2] / 100
    return (
        f"| {name} | {whole_ns / 1000:.3f} µs | {shown[0]} ns | {shown[1]} to {shown[2]} ns "
        f"| {shown[3]} % | {shown[4]} to {shown[5]} % | {verdict(bounds, limit)} |"
    )


def table(limit: float, *columns: str) -> str:
    """The head of a table whose last column is the verdict."""
    every = ("work", *columns, f"below {limit:g} %")
    return f"| {' | '.join(every)} |\n|{'---|' * len(every)}"


def report(name: str, options: argparse.Namespace) -> None:
    """Measure a feature and print its tables."""
    feature = FEATURES[name]
    limit = feature.limit_percent
    if feature.compiled:
        compile_both()
    found = measure(feature, options.pairs, options.seconds, options.folder.resolve())
    print(f"{name}: CPU per request, {options.pairs} pairs of brokers, {options.seconds:g} s each")
    print(table(limit, "with", "without", "cost", "half of the pairs", "median, 95 %"))
    decides = None if feature.in_kernels else limit
    print("\n".join(row(work, pairs, decides) for work, pairs in found.items()), flush=True)
    if feature.in_kernels:
        more = measure_kernels(feature, options.kernel_pairs)
        print(f"{name}: its kernels, {options.kernel_pairs} pairs of processes")
        print(table(limit, "CPU per request", "more", "median, 95 %", "cost", "median, 95 %"))
        rows = [kernel_row(work, found[work], more[work], limit) for work in WORK]
        print("\n".join(rows), flush=True)


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m bench.feature_cost", description=__doc__)
    made.add_argument("features", nargs="+", choices=list(FEATURES))
    made.add_argument("--pairs", type=int, default=8, help="of brokers")
    made.add_argument("--seconds", type=float, default=3.0)
    made.add_argument("--kernel-pairs", type=int, default=20)
    made.add_argument("--folder", type=Path, default=CACHE)
    options = made.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that no broker is left behind
    for name in options.features:
        try:
            report(name, options)
        except (LoadFailed, TargetFailed, KafkaException, RuntimeError) as failure:
            print(f"bench: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
