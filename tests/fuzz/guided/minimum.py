"""A small corpus of the same coverage: the inputs that are needed, and of these the parts that
are."""

import time
from collections import Counter
from collections.abc import Sequence

from tests.fuzz.guided.corpus import Input, encode
from tests.fuzz.guided.limits import ErrorLog, TooSlow, bounded, error_log
from tests.fuzz.guided.probes import Probes
from tests.fuzz.guided.search import prepared
from tests.fuzz.guided.target import Run, Target

Passed = frozenset[int]
SHORT = 120
"""Characters of an input that is left as it is."""
PIECES = (1024, 256, 64, 16)
TRIES = 150
SIMPLIFYING_S = 40.0
"""Time for all inputs of a target."""


class Minimum:
    """Runs inputs of a target."""

    def __init__(self, target: Target, probes: Probes, run: Run, errors: ErrorLog) -> None:
        self._target = target
        self._probes = probes
        self._run = run
        self._errors = errors
        self._ends_s = float("inf")

    def passed(self, data: bytes) -> Passed:
        """The probes that an input passes; none if it fails."""
        self._probes.clear()
        try:
            bounded(self._run, data, self._target.cpu_s, self._errors)
        except (Exception, TooSlow):
            return Passed()
        return Passed(self._probes.passed()[0].tolist())

    def simplified(self, data: bytes, needed: Passed) -> bytes:
        """The input with pieces left out or zero, so that it still passes the probes."""
        self._ends_s = min(self._ends_s, time.monotonic() + SIMPLIFYING_S)
        tries = TRIES
        for size in PIECES:
            at = 0
            while at < len(data) and tries and time.monotonic() < self._ends_s:
                rest = data[at + size :]
                for piece in (b"", bytes(min(size, len(data) - at))):
                    changed = data[:at] + piece + rest
                    if len(encode(changed)) >= len(encode(data)):
                        continue
                    tries -= 1
                    if needed <= self.passed(changed):
                        data = changed
                        break
                else:
                    at += size
                    continue
                at += len(piece)
        return data


def minimised(target: Target, probes: Probes, inputs: Sequence[Input]) -> list[Input]:
    """The inputs with a note, and of the others those that are needed to pass all probes that some
    input passes. Each runs twice before: some code runs only the first time."""
    with prepared(target) as run, error_log(target.silent) as errors:
        runs = Minimum(target, probes, run, errors)
        for one in inputs:
            runs.passed(one.data)
        passed = [runs.passed(one.data) for one in inputs]
        kept = needed(chosen(inputs, passed), passed, inputs)
        times = Counter(probe for number in kept for probe in passed[number])
        found = []
        for number in kept:
            one = inputs[number]
            if not one.note and len(encode(one.data)) > SHORT:
                own = Passed(probe for probe in passed[number] if times[probe] == 1)
                one = Input(runs.simplified(one.data, own))
                times.subtract(passed[number])
                times.update(runs.passed(one.data))
            found.append(one)
    return found


def chosen(inputs: Sequence[Input], passed: Sequence[Passed]) -> list[int]:
    """Numbers of inputs that together pass all probes: rare probes choose first, the shortest
    input."""
    kept = [number for number, one in enumerate(inputs) if one.note]
    covered = {probe for number in kept for probe in passed[number]}
    rarity = Counter(probe for some in passed for probe in some)
    shortest: dict[int, int] = {}
    for number in sorted(range(len(inputs)), key=lambda number: len(inputs[number].data)):
        for probe in passed[number]:
            shortest.setdefault(probe, number)
    for probe in sorted(rarity, key=lambda one: (rarity[one], one)):
        if probe not in covered:
            kept.append(shortest[probe])
            covered |= passed[shortest[probe]]
    return kept


def needed(kept: Sequence[int], passed: Sequence[Passed], inputs: Sequence[Input]) -> list[int]:
    """Of the chosen inputs those that pass a probe of their own, in their order. Long ones are left
    out first."""
    times = Counter(probe for number in kept for probe in passed[number])
    left = set(kept)
    for number in sorted(kept, key=lambda one: -len(inputs[one].data)):
        if not inputs[number].note and all(times[probe] > 1 for probe in passed[number]):
            left.remove(number)
            times.subtract(passed[number])
    return sorted(left)
