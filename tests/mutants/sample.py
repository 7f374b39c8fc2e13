"""Which mutants are tried: drawn by a seed from all of them."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutants.module_mutants import mutants_of
from tests.mutants.mutant import Mutant

PACKAGES = ("api", "cleaner", "control", "io", "net", "purgatory")
SKIPPED = ("docs.py", "layout.py", "rows.py")
"""Pages and tables of numbers."""


def modules(root: Path, only: Sequence[str] = ()) -> list[str]:
    """Paths, those that begin with one of `only`."""
    found = []
    for package in PACKAGES:
        for path in sorted((root / "kbroker" / package).rglob("*.py")):
            name = str(path.relative_to(root))
            if path.name not in SKIPPED and (not only or name.startswith(tuple(only))):
                found.append(name)
    return found


def all_mutants(root: Path, names: Iterable[str]) -> list[Mutant]:
    return [mutant for name in names for mutant in mutants_of(name, (root / name).read_text())]


def drawn(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """The first `count` in the order of the seed: a larger sample begins with the smaller one."""
    order = sorted(mutants, key=lambda mutant: random.Random(f"{seed} {mutant.key}").random())
    return order[:count]
