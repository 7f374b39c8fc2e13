"""The places at which the crash matrix makes the broker die, and their order."""

import os
import random
from collections.abc import Iterator, Sequence

from kbroker.ipc.crash_point import POINTS

ELSEWHERE = ("move: ", "registry: ")  # test_log_dir_moves has a second log dir, test_registry schemas
DEATHS, CHOSEN = "KBROKER_CRASHES", "KBROKER_CRASH_PLACES"
OF_A_TIER = "12"
ALL = "all"


def places() -> list[str]:
    """All of the matrix; with KBROKER_CRASH_PLACES=truncate,roll those whose names begin like
    this."""
    beginnings = tuple(os.environ.get(CHOSEN, "").split(","))
    return [name for name in POINTS if name.startswith(beginnings) and not name.startswith(ELSEWHERE)]


def deaths() -> int:
    """KBROKER_CRASHES: a number, or `all` for one death at each place."""
    given = os.environ.get(DEATHS) or OF_A_TIER
    return len(places()) if given == ALL else int(given)


def drawn(chance: random.Random, names: Sequence[str], count: int) -> Iterator[str]:
    """No place comes again before all others have had their turn."""
    left: list[str] = []
    for _ in range(count):
        left = left or chance.sample(names, len(names))
        yield left.pop()
