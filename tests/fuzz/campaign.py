"""Runs one round after the other, each from a seed of its own, until the time is up; a failure
names its seed.

KBROKER_FUZZ_SECONDS: seconds for all campaigns together. KBROKER_FUZZ_SEED: only the round of this
seed.
"""

import faulthandler
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

import pytest

from tests.forked_child import exit_code

SECONDS = float(os.environ.get("KBROKER_FUZZ_SECONDS", "80"))
ONLY_SEED = os.environ.get("KBROKER_FUZZ_SEED")
TIMEOUT_S = SECONDS + 240  # of pytest, for one test

Round = Callable[[random.Random], None]


class RoundFailed(AssertionError):
    """A round did not go as it must; the text says how to repeat it."""


def campaign(one: Round, share: float) -> int:
    """Rounds for a share (0 to 1) of SECONDS, at least one; returns how many. Raises
    RoundFailed."""
    if ONLY_SEED is not None:
        _round(one, int(ONLY_SEED))
        return 1
    until = time.monotonic() + SECONDS * share
    seeds = random.SystemRandom()
    done = 0
    while done == 0 or time.monotonic() < until:
        _round(one, seeds.getrandbits(48))
        done += 1
    print(f"{done} rounds")
    return done


def forked_campaign(prepare: Callable[[], Round], share: float) -> None:
    """As ``campaign``, in a child process: a crash of compiled code fails the test instead of
    ending it.

    prepare runs in the child and gives the round."""
    with tempfile.TemporaryFile("w+") as report, tempfile.TemporaryFile("w+") as last:
        child = os.fork()
        if child == 0:
            _run_child(prepare, share, report.fileno(), last.fileno())
        code = exit_code(child, TIMEOUT_S + 60)  # its own alarm comes first
        report.seek(0)
        last.seek(0)
        reported, seed = report.read(), last.read().strip()
    if code < 0:
        name = signal.Signals(-code).name
        raise RoundFailed(f"{name} in the round of seed {seed}; {_repeat(seed)}\n{reported}")
    if code:
        raise RoundFailed(reported)


def _run_child(prepare: Callable[[], Round], share: float, report: int, last: int) -> None:
    code = 1
    try:
        signal.alarm(int(TIMEOUT_S))
        faulthandler.enable(report)
        one = prepare()

        def noted(rng: random.Random) -> None:
            os.pwrite(last, f"{_seed_of(rng):<20}".encode(), 0)
            one(rng)

        campaign(noted, share)
        code = 0
    except BaseException:
        os.write(report, traceback.format_exc().encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


class _Seeded(random.Random):
    """A generator that remembers its seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.number = seed


def _seed_of(rng: random.Random) -> int:
    assert isinstance(rng, _Seeded)
    return rng.number


def _round(one: Round, seed: int) -> None:
    try:
        one(_Seeded(seed))
    except Exception as failure:
        raise RoundFailed(f"the round of seed {seed} failed: {failure!r}; {_repeat(seed)}") from failure


def _repeat(seed: object) -> str:
    where = os.environ.get("PYTEST_CURRENT_TEST", "tests/fuzz").split(" ")[0]
    return f"repeat: KBROKER_FUZZ_SEED={seed} python -m pytest -m fuzz {where}"


MARKS = [
    pytest.mark.fuzz,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),  # the child uses no thread of ours
]
