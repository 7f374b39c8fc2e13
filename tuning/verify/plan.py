"""The plan of a run: which changes fit into the time, how many turns each gets, how long one is."""

from collections.abc import Iterator
from dataclasses import dataclass

from tuning.quantity import show_bytes, show_seconds
from tuning.verify.change import Change, Choice, Omitted
from tuning.verify.decision import FEWEST_TURNS, MAX_TURNS

OVERHEAD_S = 3.0  # start and stop of the broker, a file's way to the disk; the first turn measures it
MIN_LOAD_S, MAX_LOAD_S = 2.0, 20.0
COMFORT_LOAD_S = 8.0  # more turns are worth more than longer ones from here on
ORDER = (False, True, True, False)
"""Turns with the change (True) and without it (False), in this order: a steady drift favours
neither side."""


@dataclass(frozen=True, slots=True)
class Plan:
    """turns: of each side. load_s: seconds of load in a turn."""

    changes: tuple[Change, ...]
    omitted: tuple[Omitted, ...]
    turns: int
    load_s: float
    limit_s: float

    @property
    def seconds(self) -> float:
        """The time that it takes, one turn before the first included that is not counted."""
        return (2 * self.turns * len(self.changes) + 1) * (self.load_s + OVERHEAD_S)

    def order(self) -> tuple[bool, ...]:
        """Whether each turn of a change has it."""
        return tuple(ORDER[number % len(ORDER)] for number in range(2 * self.turns))


def plan(choice: Choice, limit_s: float) -> Plan:
    """As many changes as fit with the fewest turns that can decide; then more turns, then longer
    ones."""
    fitting = choice.changes
    while len(fitting) > 1 and _load_s(len(fitting), FEWEST_TURNS, limit_s) < MIN_LOAD_S:
        fitting = fitting[:-1]
    late = [
        Omitted(change.label, "no time: give more --minutes") for change in choice.changes[len(fitting) :]
    ]
    turns = FEWEST_TURNS
    while turns < MAX_TURNS and _load_s(len(fitting), turns + 1, limit_s) >= COMFORT_LOAD_S:
        turns += 1
    load_s = min(max(_load_s(len(fitting), turns, limit_s), MIN_LOAD_S), MAX_LOAD_S)
    return Plan(fitting, (*choice.omitted, *late), turns, load_s, limit_s)


def _load_s(changes: int, turns: int, limit_s: float) -> float:
    return limit_s / (2 * turns * changes + 1) - OVERHEAD_S


def plan_text(made: Plan, place: str, max_bytes: int) -> str:
    """The changes that will be tried."""
    return "\n".join(_lines(made, place, max_bytes))


def _lines(made: Plan, place: str, max_bytes: int) -> Iterator[str]:
    if not made.changes:
        yield "There is no change to try here."
    else:
        both = f"{made.turns} turns with and {made.turns} without each change"
        yield f"{both}, alternately: about {show_seconds(made.seconds)}."
        yield (
            f"Each turn runs a broker of its own below {place}, loads it for {show_seconds(made.load_s)}, writes "
            f"{show_bytes(max_bytes)} at most and removes them."
        )
        for change in made.changes:
            where = "this host, for as long as its turns last" if change.on_host else "the broker of the turn"
            yield f"  try   {change.label}  ({where}; now {change.remedy.old or 'the default'})"
    for each in made.omitted:
        yield f"  leave {each.what}: {each.why}"
