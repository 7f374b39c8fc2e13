"""What crash tests are held to: chance that can be repeated, and no exception that is lost.

Every test that draws from the seed prints it, and KBROKER_CRASH_SEED repeats the run, as far as a
machine's timing allows.
"""

import os
import random

import pytest

UNRAISABLE = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
"""An exception that nobody can catch, in a finalizer or a callback of C, fails its test."""
VARIABLE = "KBROKER_CRASH_SEED"
SEED = int(os.environ.get(VARIABLE) or random.SystemRandom().randrange(1, 1 << 30))


def chances() -> random.Random:
    """The same draws for every test; prints how to repeat them."""
    print(f"{VARIABLE}={SEED}")
    return random.Random(SEED)
