"""`python -m bench.feature_cost metrics|authorizer|audit`: cost of a feature on the hot path,
measured by pairs of kbrokers with and without it.

Both run at the same time and do the same work in turn, in alternating order. The result is CPU per
request, which a busy machine disturbs least.
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
from bench.run import Run, make_generator, running, work_folder
from bench.scenarios import SCENARIOS
from bench.size import QUICK
from bench.targets import KbrokerTarget, Target, TargetFailed
from kbroker.kernels.cache import METRICS_OFF

WORK = ("raw_50x1", "raw_50x5", "fetch_4k")
COST = "cpu_us"
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
    run once the broker with it is ready. compiled: both have kernels of their own."""

    settings: Callable[[Path], Mapping[str, str]] = lambda _: {}
    without: Mapping[str, str] = field(default_factory=dict)
    begin: Callable[[Target], None] = lambda _: None
    compiled: bool = False


FEATURES = {
    "metrics": Feature(without={METRICS_OFF: "1"}, compiled=True),
    "authorizer": Feature(
        lambda _: {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
        begin=grant_all,
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


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Bounds of the median with a confidence of 95 %, by the order of the figures alone; all of
    them if they are too few."""
    count, ordered = len(ratios), sorted(ratios)
    below, rank = 0.0, 0
    while 2 * (below + comb(count, rank) / 2**count) <= DOUBT:
        below += comb(count, rank) / 2**count
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[count - rank]


def verdict(bounds: tuple[float, float], limit_percent: float) -> str:
    """Whether the cost is below the limit, as far as the spread lets it be known."""
    low, high = (100 * (bound - 1) for bound in bounds)
    if high < limit_percent:
        return "yes"
    return "no" if low >= limit_percent else "not decided by these pairs"


def row(name: str, pairs: Sequence[tuple[float, float]], limit_percent: float) -> str:
    """Medians, the median of the pairs' ratios with its quartiles and bounds, and the verdict."""
    ratios = [one / other for one, other in pairs]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    with_, without = (median(side) for side in zip(*pairs, strict=True))
    bounds = interval(ratios)
    shown = [f"{100 * (each - 1):+.1f}" for each in (middle, low, high, *bounds)]
    return (
        f"| {name} | {with_:.3f} µs | {without:.3f} µs | {shown[0]} % | {shown[1]} to {shown[2]} % "
        f"| {shown[3]} to {shown[4]} % | {verdict(bounds, limit_percent)} |"
    )


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m bench.feature_cost", description=__doc__)
    made.add_argument("features", nargs="+", choices=list(FEATURES))
    made.add_argument("--pairs", type=int, default=8)
    made.add_argument("--seconds", type=float, default=3.0)
    made.add_argument("--limit", type=float, default=1.0, metavar="PERCENT", help="of the verdict")
    made.add_argument("--folder", type=Path, default=CACHE)
    options = made.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that no broker is left behind
    for name in options.features:
        feature = FEATURES[name]
        if feature.compiled:
            compile_both()
        try:
            found = measure(feature, options.pairs, options.seconds, options.folder.resolve())
        except (LoadFailed, TargetFailed, KafkaException) as failure:
            print(f"bench: {failure}", file=sys.stderr)
            return 1
        print(f"{name}: CPU per request, {options.pairs} pairs of {options.seconds:g} s")
        print(
            f"| work | with | without | cost | half of the pairs | median, 95 % | below {options.limit:g} % |"
        )
        print("|---|---|---|---|---|---|---|")
        rows = [row(scenario, pairs, options.limit) for scenario, pairs in found.items()]
        print("\n".join(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
