"""The schedule of faults. It only depends on a seed, so that a run can be repeated."""

import random
from dataclasses import asdict, dataclass
from typing import Any

FIRST_AT_S = 4.0
PAUSE_S = (4.0, 10.0)  # between the end of a fault and the next one
LAST_SHARE = 0.95  # share of the run with faults: at the end there are none, so that clients can recover

KBROKER_ROLES = ("acceptor", "network", "io", "control", "cleaner", "http")
LATE_ROLES = ("cleaner", "http")  # their processes start when they have something to do

# fault -> targets with kbroker, targets with Apache Kafka, (shortest, longest) seconds, sizes to
# draw from
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[float, float], tuple[float, ...]]] = {
    "kill": (KBROKER_ROLES, ("broker",), (0.0, 0.0), ()),
    "pause": (KBROKER_ROLES, ("broker",), (0.5, 5.0), ()),
    "restart": (("broker",), ("broker",), (0.0, 0.0), ()),
    "settings": (("topics",), ("topics",), (3.0, 8.0), ()),
    "fill": (("disk",), ("disk",), (2.0, 5.0), ()),
    "cold": (("cache",), ("cache",), (0.0, 0.0), ()),
    "slow": (("disk",), ("disk",), (2.0, 8.0), (1.0, 5.0, 20.0, 100.0)),  # ms a write, read or sync
    "reset": (("connections",), ("connections",), (0.0, 0.0), ()),
    "clock": (("clock",), ("clock",), (3.0, 8.0), (-600.0, -60.0, -5.0, 5.0, 60.0, 600.0)),  # seconds
}
REMOTE = {"reset": "connections"}  # what needs no access to the broker's host


class UnknownFault(ValueError):
    """An unknown kind of fault; the text lists the known ones."""


@dataclass(slots=True, frozen=True)
class Fault:
    """`at_s`: seconds after the start of the load; `seconds`: duration (0: instant); `size`: in the
    unit of the kind."""

    at_s: float
    kind: str
    target: str
    seconds: float
    size: float

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        units = {"slow": "ms", "clock": "s"}
        size = f" by {self.size:+g} {units[self.kind]}" if self.kind in units else ""
        return f"{self.at_s:7.1f} s  {self.kind} {self.target}{size}{lasts}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_kinds(text: str) -> list[str]:
    """`all`, `none`, or kinds with commas. Raises UnknownFault."""
    if text in ("all", "none"):
        return list(KINDS) if text == "all" else []
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise UnknownFault(
            f"no fault {', '.join(unknown) or '(none given)'}; there are: all, none, {', '.join(KINDS)}"
        )
    return kinds


def plan(seed: int, seconds: float, kinds: list[str], broker: str) -> list[Fault]:
    """The faults of a run, in order. Every (kind, target) comes once before any comes twice.

    `broker`: kbroker | kafka | remote. The same arguments give the same plan.
    """
    choices = [(kind, target) for kind in kinds for target in _targets(kind, broker)]
    if not choices:
        return []
    dice = random.Random(f"faults {seed} {broker}")
    faults: list[Fault] = []
    bag: list[tuple[str, str]] = []
    at_s = FIRST_AT_S
    while True:
        if not bag:
            bag = dice.sample(choices, len(choices))
        kind, target = bag.pop()
        shortest, longest = KINDS[kind][2]
        lasts = round(dice.uniform(shortest, longest), 1)
        size = dice.choice(KINDS[kind][3]) if KINDS[kind][3] else 0.0
        if at_s + lasts > seconds * LAST_SHARE:
            return faults
        faults.append(Fault(round(at_s, 1), kind, target, lasts, size))
        at_s += lasts + dice.uniform(*PAUSE_S)


def _targets(kind: str, broker: str) -> tuple[str, ...]:
    if broker == "remote":
        return (REMOTE[kind],) if kind in REMOTE else ()
    of_kbroker, of_kafka, _seconds, _sizes = KINDS[kind]
    return of_kbroker if broker == "kbroker" else of_kafka
