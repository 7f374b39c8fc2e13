"""The run: turns with and without each change, the decision, and the changes that it keeps or
reverts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tuning.verify.broker import TurnFailed
from tuning.verify.change import Change, Omitted
from tuning.verify.decision import Decision, Verdict, decide
from tuning.verify.figures import ACK_P99, PRODUCE, Figures
from tuning.verify.host_change import HostValues
from tuning.verify.plan import MIN_LOAD_S, Plan
from tuning.verify.turn import Turn

Say = Callable[[str], None]
Clock = Callable[[], float]
UNDECIDED = Decision(Verdict.UNDECIDED, ())
FAILED = Decision(Verdict.FAILED, ())
PLANNED = 0.9
"""Share of the time that is assigned to turns: the rest allows for turns that take longer."""
LATE = "no time: give more --minutes"


@dataclass(slots=True)
class Outcome:
    """The result of one change. without, changed: figures of the turns of each side, in order.
    decision: undecided until all turns are done. failure: the reason if the change failed, or
    empty."""

    change: Change
    without: list[Figures] = field(default_factory=list)
    changed: list[Figures] = field(default_factory=list)
    decision: Decision = UNDECIDED
    failure: str = ""

    @property
    def kept(self) -> bool:
        return self.decision.verdict is Verdict.HELPED


class Verification:
    """Runs in: the tuner. Owner: the command; `outcomes` has the results so far, also after an
    interruption. Changes that were kept are part of both sides in later comparisons."""

    def __init__(
        self,
        plan: Plan,
        settings: dict[str, str],
        turn: Turn,
        host: HostValues,
        say: Say,
        clock: Clock = time.monotonic,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.late: list[Omitted] = []
        self._plan = plan
        self._settings = settings
        self._turn = turn
        self._host = host
        self._say = say
        self._clock = clock
        self._load_s = plan.load_s

    def run(self) -> None:
        """Raises TurnFailed when the broker fails without any change."""
        deadline = self._clock() + self._plan.limit_s
        self._warm_up()
        for change in self._plan.changes:
            if self._clock() >= deadline:
                self.late.append(Omitted(change.label, LATE))
                continue
            outcome = Outcome(change)
            self.outcomes.append(outcome)
            self._try(outcome, deadline)
            self._settle(outcome)

    def _warm_up(self) -> None:
        """One turn that does not count. The time that it needs besides its load shortens the load
        of the other turns."""
        self._say("a first turn, which does not count ...")
        begun = self._clock()
        self._turn(self._settings, MIN_LOAD_S)
        overhead = self._clock() - begun - MIN_LOAD_S
        turns = 2 * self._plan.turns * max(1, len(self._plan.changes))
        left = self._plan.limit_s - overhead - MIN_LOAD_S
        self._load_s = max(MIN_LOAD_S, min(self._plan.load_s, left * PLANNED / turns - overhead))

    def _try(self, outcome: Outcome, deadline: float) -> None:
        order = self._plan.order()
        for number, with_it in enumerate(order, 1):
            if self._clock() >= deadline:
                return
            try:
                figures = self._one(outcome.change, with_it)
            except (TurnFailed, OSError) as error:
                if not with_it:
                    raise
                outcome.failure = str(error)
                return
            (outcome.changed if with_it else outcome.without).append(figures)
            self._say(
                f"{outcome.change.label}: turn {number} of {len(order)}, {'with' if with_it else 'without'} it: "
                f"{_brief(figures)}"
            )

    def _one(self, change: Change, with_it: bool) -> Figures:
        """One turn with or without a change. Raises TurnFailed, OSError."""
        if change.on_host:
            (self._host.apply if with_it else self._host.restore)(change.remedy)
            return self._turn(self._settings, self._load_s)
        more = {change.target: change.remedy.new} if with_it else {}
        return self._turn({**self._settings, **more}, self._load_s)

    def _settle(self, outcome: Outcome) -> None:
        """Keeps the changes that helped, reverts the others."""
        change = outcome.change
        outcome.decision = FAILED if outcome.failure else decide(outcome.without, outcome.changed)
        if change.on_host:
            (self._host.keep if outcome.kept else self._host.restore)(change.remedy)
        elif outcome.kept:
            self._settings = {**self._settings, change.target: change.remedy.new}
        self._say(
            f"{change.label}: {outcome.decision.verdict.value}; {'kept' if outcome.kept else 'reverted'}"
        )


def _brief(figures: Figures) -> str:
    return ", ".join(
        f"{each.title} {each.show(figures[each.key])}" for each in (PRODUCE, ACK_P99) if each.key in figures
    )
