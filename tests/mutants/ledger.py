"""tests/mutants/results.csv: what became of each mutant that was tried; reasons.csv: why a survivor
may survive."""

import csv
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.csv"
REASONS = FOLDER / "reasons.csv"
FIELDS = ("module", "function", "operator", "before", "after", "ordinal", "verdict", "by", "seed")
KEY = FIELDS[:6]

KILLED, TIMED_OUT, SURVIVED = "killed", "time-out", "survived"


@dataclass
class Result:
    """by: the test that failed, or how many noticed nothing. seed: of the sample."""

    key: tuple[str, ...]
    verdict: str
    by: str
    seed: str


class Ledger:
    """The results in a file, the order of trial kept. A new result of the same mutant takes the old
    one's place."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self.results: dict[tuple[str, ...], Result] = {}
        for row in _rows(path):
            key = tuple(row[name] for name in KEY)
            self.results[key] = Result(key, row["verdict"], row["by"], row["seed"])

    def knows(self, mutant: Mutant) -> bool:
        return mutant.key in self.results

    def add(self, mutant: Mutant, verdict: str, by: str, seed: str) -> None:
        self.results[mutant.key] = Result(mutant.key, verdict, by, seed)
        self.write()

    def write(self) -> None:
        """Written whole: an interrupted run continues where it was."""
        new = self._path.with_suffix(".new")
        with open(new, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(FIELDS)
            writer.writerows((*each.key, each.verdict, each.by, each.seed) for each in self.results.values())
        new.replace(self._path)

    def survivors(self) -> list[Result]:
        return [each for each in self.results.values() if each.verdict == SURVIVED]


def reasons(path: Path = REASONS) -> dict[tuple[str, ...], str]:
    """Why no test can notice a mutant, or need not."""
    return {tuple(row[name] for name in KEY): row["reason"] for row in _rows(path)}


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
