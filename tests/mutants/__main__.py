"""Mutation testing: `python -m tests.mutants --count 500 --seed 1`. Results go to
tests/mutants/results.csv.

A run that was interrupted continues where it was; --again tries the survivors of the results once
more.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mirrors import of_this_tree
from tests.mutants.import_graph import ImportGraph
from tests.mutants.ledger import KILLED, SURVIVED, TIMED_OUT, Ledger, reasons
from tests.mutants.mutant import Mutant
from tests.mutants.sample import all_mutants, drawn, modules
from tests.mutants.tree_copy import TreeCopy
from tests.mutants.trial import Trial, tried
from tests.mutants.written import written

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "mutants"
DISTANCE = 3
NEAREST = 6
"""Files of the first run: most mutants die there."""


class Trials:
    """Tries mutants in a copy. broken: tests that fail without any mutant, which say nothing."""

    def __init__(self, copy: TreeCopy, seconds: float) -> None:
        self._copy = copy
        self._graph = ImportGraph(copy.folder)
        self._mirrors = of_this_tree()
        self._seconds = seconds
        self._passed: set[str] = set()
        self.broken: set[str] = set()

    def verdict(self, mutant: Mutant) -> tuple[str, str]:
        """The verdict, and the test that noticed."""
        mirror = self._mirrors.found(mutant.module)
        near = self._graph.tests_of(mutant.module, DISTANCE)
        files = list(dict.fromkeys([*([mirror] if mirror else []), *near]))
        left = self._seconds
        ran = 0
        for part in (files[:NEAREST], files[NEAREST:]):
            if not part or left < 1:
                continue
            trial = self._noticed(mutant, part, left)
            if trial.failed:
                return (TIMED_OUT if trial.timed_out else KILLED), trial.failed
            ran += trial.tests
            left -= trial.seconds
        return SURVIVED, f"{ran} tests"

    def _noticed(self, mutant: Mutant, files: Sequence[str], seconds: float) -> Trial:
        """What the tests say, without those that fail anyway."""
        while True:
            with self._copy.mutated(mutant):
                trial = tried(self._copy.folder, files, seconds, sorted(self.broken))
            if not trial.failed or trial.failed in self._passed or "::" not in trial.failed:
                return trial
            alone = tried(self._copy.folder, [trial.failed], seconds)
            if not alone.failed:
                self._passed.add(trial.failed)
                return trial
            print(f"    {trial.failed} fails without a mutant: left out")
            self.broken.add(trial.failed)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many mutants")
    parser.add_argument("--seed", default="1", help="which ones")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="modules below this path")
    parser.add_argument("--function", default="", help="mutants of this function alone")
    parser.add_argument("--seconds", type=float, default=60, help="of CPU, for the tests of one mutant")
    parser.add_argument("--again", action="store_true", help="try the survivors of the results again")
    parser.add_argument("--written", action="store_true", help="try those that were written by hand")
    parser.add_argument("--results", type=Path, help="another file of results")
    parser.add_argument("--list", action="store_true", help="show the mutants, try none")
    options = parser.parse_args(arguments)
    ledger = Ledger(options.results) if options.results else Ledger()
    names = modules(ROOT, options.only)
    by_hand, gone = written(ROOT, names)
    for text in gone:
        print(f"left out, the module does not have it once: {text}")
    found = by_hand if options.written else all_mutants(ROOT, names) + by_hand * options.again
    found = [each for each in found if not options.function or options.function in each.function]
    if options.again:
        again = {each.key for each in ledger.survivors()} - reasons().keys()
        chosen = [each for each in found if each.key in again]
    elif options.written:
        chosen = found
    else:
        chosen = drawn(found, options.count, options.seed)
    print(f"{len(found)} mutants, {len(chosen)} chosen")
    if options.list:
        print(*chosen, sep="\n")
        return 0
    return _try_all(chosen, ledger, options)


def _try_all(chosen: Sequence[Mutant], ledger: Ledger, options: argparse.Namespace) -> int:
    os.nice(15)
    copy = TreeCopy(ROOT, FOLDER / "tree")
    copy.refresh()
    trials = Trials(copy, options.seconds)
    verdicts: Counter[str] = Counter()
    excused = reasons()
    for number, mutant in enumerate(chosen, 1):
        if not options.again and ledger.knows(mutant):
            continue
        began = time.monotonic()
        verdict, by = trials.verdict(mutant)
        verdicts[verdict] += mutant.key not in excused
        ledger.add(mutant, verdict, by, options.seed)
        print(
            f"{number}/{len(chosen)} {verdict} {time.monotonic() - began:.0f} s {mutant} [{by}]", flush=True
        )
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "nothing to try")
    return 1 if verdicts[SURVIVED] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
