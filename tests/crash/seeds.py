"""Chance that can be repeated.

Every test that draws from the seed prints it, and KBROKER_CRASH_SEED repeats the run, as far as a
machine's timing allows.
"""

import os
import random

VARIABLE = "KBROKER_CRASH_SEED"
SEED = int(os.environ.get(VARIABLE) or random.SystemRandom().randrange(1, 1 << 30))


def chances() -> random.Random:
    """The same draws for every test; prints how to repeat them."""
    print(f"{VARIABLE}={SEED}")
    return random.Random(SEED)
