"""Asks one knob of the registry."""

from tuning.finding import Finding
from tuning.knobs.registry import findings
from tuning.situation import Situation


def ask(situation: Situation, name: str) -> Finding:
    """The finding of the knob whose name ends so."""
    (found,) = [each for each in findings(situation) if each.knob.endswith(name)]
    return found
