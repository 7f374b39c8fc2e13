"""Proofs of the tuner, for tests of their reports."""

from tests.tuning.verify.samples import broker_change
from tests.tuning.verify.turns import turns
from tuning.verify.change import Change, Omitted
from tuning.verify.decision import decide
from tuning.verify.figures import Figures
from tuning.verify.report import Report
from tuning.verify.run import Outcome


def outcome(change: Change, changed: list[Figures]) -> Outcome:
    without = turns(800, 4.0)
    return Outcome(change, without, changed, decide(without, changed))


HELPED = outcome(broker_change(), turns(900, 4.0))
SAME = outcome(broker_change("num.network.threads"), turns(800, 4.0))
OUT = (Omitted("vm.swappiness", "it is <scarce>"),)


def report(*outcomes: Outcome, interrupted: str = "") -> Report:
    return Report("box: 2 cores", "2026-01-02 03:04", 61.0, "2 s", outcomes, OUT, interrupted)
