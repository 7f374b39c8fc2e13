"""The findings of a run, as text, as JSON and as lines for the broker's properties file."""

import statistics
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tuning.finding import Means
from tuning.quantity import show_seconds
from tuning.verify.change import Omitted
from tuning.verify.decision import FEWEST_TURNS, HARMS, HELPS, MIN_CHANGE, Comparison, Judgement, Verdict
from tuning.verify.run import Outcome

NOTHING = "No change helped beyond the spread."
QUIET = "This host is as good as what was tried can make it."
NOISY = "The turns of one side differ by {}: smaller gains cannot be seen. Stop other work and try again."
WIDE = 0.3  # of the median
OPEN = "Nothing could be decided: too few turns. Give more --minutes."
MARGIN = " " * 4


@dataclass(frozen=True, slots=True)
class Report:
    """host: a line about it. load: a line about a turn's work. interrupted: name of the signal, or
    empty."""

    host: str
    begun: str
    seconds: float
    load: str
    outcomes: tuple[Outcome, ...]
    omitted: tuple[Omitted, ...]
    interrupted: str = ""

    @property
    def kept(self) -> tuple[Outcome, ...]:
        return () if self.interrupted else tuple(each for each in self.outcomes if each.kept)

    @property
    def conclusion(self) -> str:
        """One sentence."""
        if self.interrupted:
            return f"Ended by {self.interrupted}: nothing was kept, and this host is as it was before."
        if self.kept:
            return f"{len(self.kept)} of {len(self.outcomes)} changes helped and stay."
        if not self.outcomes:
            return "There was nothing to try."
        if all(each.decision.verdict is Verdict.UNDECIDED for each in self.outcomes):
            return OPEN
        return f"{NOTHING} {NOISY.format(f'{self.noise:.0%}') if self.noise > WIDE else QUIET}"

    @property
    def noise(self) -> float:
        """The distance between the turns without a change, as a share of their median: the middle
        one of all figures."""
        sides = [each.without for outcome in self.outcomes for each in outcome.decision.comparisons]
        apart = [
            (max(side) - min(side)) / middle for side in sides if side and (middle := statistics.median(side))
        ]
        return statistics.median(apart) if apart else 0.0

    def as_json(self) -> dict[str, object]:
        """The report as JSON for programs: the figures of every turn, and the decisions."""
        return {
            "host": self.host,
            "begun": self.begun,
            "seconds": round(self.seconds, 1),
            "load": self.load,
            "interrupted": self.interrupted or None,
            "rule": {
                "fewest_turns": FEWEST_TURNS,
                "helps": HELPS,
                "harms": HARMS,
                "least_change": MIN_CHANGE,
            },
            "conclusion": self.conclusion,
            "kept": [each.change.label for each in self.kept],
            "changes": [_outcome_json(each, each in self.kept) for each in self.outcomes],
            "left": [asdict(each) for each in self.omitted],
        }

    def properties(self) -> str:
        """Kept settings of the broker, each below its reason."""
        lines = []
        for each in self.kept:
            if each.change.remedy.means is Means.PROPERTY:
                lines += [
                    f"# {line}" for line in textwrap.wrap(_gains(each), 100, break_on_hyphens=False)
                ] + [each.change.label]
        return "\n".join(lines or [f"# {self.conclusion}"]) + "\n"

    def text(self) -> str:
        """The report for the terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.host}, {self.begun}, {show_seconds(self.seconds)}"
        yield f"each turn: {self.load}"
        for outcome in self.outcomes:
            yield ""
            yield from outcome_lines(outcome, outcome in self.kept)
        if self.omitted:
            yield ""
            yield "not tried:"
            for each in self.omitted:
                yield f"{MARGIN}{each.what}: {each.why}"
        yield ""
        yield self.conclusion
        for outcome in self.kept:
            yield from _stays(outcome)


def _stays(outcome: Outcome) -> Iterator[str]:
    remedy = outcome.change.remedy
    if remedy.means is Means.PROPERTY:
        yield f"{MARGIN}set in the broker's properties: {remedy.apply}"
    else:
        yield f"{MARGIN}set on this host until it starts again: {remedy.apply}"
        yield f"{MARGIN}  undo: {remedy.undo}"
        yield f"{MARGIN}  for good: kbroker tune script shows where"


def outcome_lines(outcome: Outcome, kept: bool) -> Iterator[str]:
    """A block: the change, its figures, what is made of them."""
    decision = outcome.decision
    yield f"{outcome.change.label}  ({len(outcome.without)} turns without, {len(outcome.changed)} with)"
    yield from textwrap.wrap(
        outcome.change.why, 110, initial_indent=MARGIN, subsequent_indent=MARGIN, break_on_hyphens=False
    )
    if outcome.failure:
        yield f"{MARGIN}{outcome.failure}"
    if decision.comparisons:
        yield f"{MARGIN}{'median (least to most)':<34}{'without':<26}{'with':<26}better by"
        for each in decision.comparisons:
            sides = f"{spread(each, each.without):<26}{spread(each, each.changed):<26}"
            yield f"{MARGIN}{each.figure.title:<34}{sides}{each.gain:+.1%} {each.judgement.value}".rstrip()
    yield f"{MARGIN}=> {decision.verdict.value}: {'kept' if kept else 'reverted'}"


def spread(comparison: Comparison, values: tuple[float, ...]) -> str:
    """`812 (790-830) MB/s` of one side."""
    if not values:
        return "-"
    figure = comparison.figure
    low, middle, high = (
        figure.show(each).removesuffix(f" {figure.unit}")
        for each in (min(values), statistics.median(values), max(values))
    )
    return f"{middle} ({low}-{high}) {figure.unit}"


def _gains(outcome: Outcome) -> str:
    better = outcome.decision.having(Judgement.BETTER)
    shown = ", ".join(
        f"{each.figure.title} {spread(each, each.changed)} instead of {spread(each, each.without)}"
        for each in better
    )
    return f"{outcome.change.why}; kbroker tune verify, {len(outcome.changed)} turns each: {shown}"


def _outcome_json(outcome: Outcome, kept: bool) -> dict[str, object]:
    decision, remedy = outcome.decision, outcome.change.remedy
    return {
        "change": outcome.change.label,
        "means": remedy.means.value,
        "old": remedy.old,
        "why": outcome.change.why,
        "verdict": decision.verdict.name.lower(),
        "kept": kept,
        "failure": outcome.failure or None,
        "undo": remedy.undo,
        "figures": [_comparison_json(each) for each in decision.comparisons],
    }


def _comparison_json(comparison: Comparison) -> dict[str, object]:
    figure = comparison.figure
    return {
        "key": figure.key,
        "title": figure.title,
        "unit": figure.unit,
        "better": "more" if figure.more_is_better else "less",
        "without": list(comparison.without),
        "with": list(comparison.changed),
        "gain": comparison.gain,
        "chance_better": comparison.better,
        "chance_worse": comparison.worse,
        "judgement": comparison.judgement.name.lower(),
    }
