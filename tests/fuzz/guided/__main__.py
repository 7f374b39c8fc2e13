"""`python -m tests.fuzz.guided [TARGET ...]`: a search guided by coverage, for all targets or some.

--minutes N      of the search, shared by the targets (default 1); --seconds N in its place
--also FOLDER    tries the inputs of corpus files in a folder, too (see recording.py)
--fresh          tries the inputs that the target makes, too, as without a corpus
--store          adds what was found to the corpus, minimised
--replay         only runs the corpus, and prints its time
--input WORD     only runs one input, as a failure prints it or a corpus holds it
--add WORD NOTE  adds an input to the corpus of the target, with a note, as a regression test
--seed N         of the random changes
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

if __name__ == "__main__":  # before the first module of kbroker is imported
    os.environ["KBROKER_NO_KERNELS"] = "1"

from tests.fuzz.guided import corpus
from tests.fuzz.guided.corpus import Input
from tests.fuzz.guided.probes import Probes

MAX_CORPUS_BYTES = 1_000_000


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz.guided",
        usage=argparse.SUPPRESS,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--also", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--input")
    parser.add_argument("--add", nargs=2, metavar=("WORD", "NOTE"))
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    given = arguments(words)
    probes = Probes()
    if not (given.replay or given.input):
        probes.install()
    from tests.fuzz.guided.targets import TARGETS

    if unknown := sorted(set(given.targets) - set(TARGETS)):
        print(f"targets: {' '.join(TARGETS)}; unknown: {' '.join(unknown)}")
        return 2
    names = given.targets or list(TARGETS)
    if given.add:
        word, note = given.add
        (name,) = names
        corpus.write(name, [*corpus.read(name), Input(corpus.decode(word), note)])
        return 0
    if given.replay or given.input:
        return _replay(names, given.input)
    seconds = given.seconds if given.seconds is not None else given.minutes * 60
    failed = sum(_search(name, probes, seconds / len(names), given) for name in names)
    size = sum(path.stat().st_size for path in corpus.FOLDER.glob("*.txt"))
    print(f"the corpus has {size:,} bytes of {MAX_CORPUS_BYTES:,}")
    return int(failed > 0)


def _replay(names: Sequence[str], word: str | None) -> int:
    from tests.fuzz.guided.search import replay
    from tests.fuzz.guided.targets import TARGETS

    failed = 0
    for name in names:
        inputs = [Input(corpus.decode(word))] if word else corpus.read(name)
        began = time.monotonic()
        failures = replay(TARGETS[name], inputs)
        print(f"{name}: {len(inputs)} inputs in {time.monotonic() - began:.1f} s, {len(failures)} failed")
        for failure in failures:
            print(failure.report(name))
        failed += len(failures)
    return int(failed > 0)


def _search(name: str, probes: Probes, seconds: float, given: argparse.Namespace) -> int:
    """The number of failures."""
    from tests.fuzz.guided.limits import bound_address_space
    from tests.fuzz.guided.minimum import minimised
    from tests.fuzz.guided.search import Search, prepared
    from tests.fuzz.guided.targets import TARGETS

    target, rng = TARGETS[name], random.Random(f"{name} {given.seed}")
    stored = corpus.read(name)
    more = [one.data for one in corpus.read(name, given.also)] if given.also else []
    made = target.seeds(rng) if given.fresh or not stored else ()
    with prepared(target) as run:
        bound_address_space()
        search = Search(target, run, probes, rng)
        print(f"{name}: seed {given.seed}; if the process dies, its input is in {search.last}", flush=True)
        done = search.run([one.data for one in stored], chain(more, made), seconds)
    before, after = done.covered
    print(
        f"{name}: {done.tried:,} inputs in {done.seconds:.0f} s, {len(done.kept)} with new coverage; "
        f"{before} of {done.probes} probes by the corpus, {after} with the search"
    )
    for failure in done.failures:
        print(failure.report(name), flush=True)
    if given.store:
        inputs = [*stored, *(Input(data) for data in done.kept)]
        kept = minimised(target, probes, inputs)
        corpus.write(name, kept)
        print(f"{name}: {len(kept)} inputs stored, {len(inputs) - len(kept)} left out", flush=True)
    return len(done.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
