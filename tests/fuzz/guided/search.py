"""The search: an input of the corpus is changed, and kept if it passes a probe for the first time,
or with a new count."""

import random
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.guided.corpus import Input, encode
from tests.fuzz.guided.limits import TooSlow, bounded, error_log
from tests.fuzz.guided.mixer import mixer
from tests.fuzz.guided.probes import Probes, Seen
from tests.fuzz.guided.target import Run, Target

RECENT = 30
SHORTENINGS = 300
MAX_FOUND = 10


@dataclass
class Failure:
    """An input that failed. place: the exception and the innermost line of kbroker."""

    data: bytes
    place: str
    text: str

    def report(self, target: str) -> str:
        """Its traceback and how to repeat it."""
        word = encode(self.data)
        repeat = f"python -m tests.fuzz.guided {target} --input {word}"
        return f"{self.text}\n{target}: {self.place}\nrepeat: {repeat}"


@dataclass
class Outcome:
    """covered: probes that were passed, before the search and at its end, of all in the target's
    modules."""

    tried: int = 0
    seconds: float = 0.0
    covered: tuple[int, int] = (0, 0)
    probes: int = 0
    kept: list[bytes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Search:
    """One target with its corpus. last: a file that holds the input being tried."""

    def __init__(self, target: Target, run: Run, probes: Probes, rng: random.Random) -> None:
        self._target = target
        self._run = run
        self._probes = probes
        self._rng = rng
        self._pool: list[bytes] = []
        self._seen = Seen()
        self._places: set[str] = set()
        self.outcome = Outcome()
        self._last = tempfile.NamedTemporaryFile(prefix=f"kbroker-fuzz-{target.name}-")  # noqa: SIM115

    @property
    def last(self) -> str:
        """The file with the input being tried."""
        return self._last.name

    def run(self, first: Iterable[bytes], more: Iterable[bytes], seconds: float) -> Outcome:
        """Try the corpus, then for so long `more` inputs and changed ones."""
        began = time.monotonic()
        with error_log(self._target.silent) as self._errors:
            for data in first:
                self._try(data, keep=True)
            before = self._covered()
            until = time.monotonic() + seconds
            for data in more:
                self._try(data)
            while time.monotonic() < until and len(self.outcome.failures) < MAX_FOUND:
                self._try(self._changed())
        numbers = self._probes.of(self._target.modules)
        self.outcome.covered = before, self._seen.among(numbers)
        self.outcome.probes = len(numbers)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _covered(self) -> int:
        return self._seen.among(self._probes.of(self._target.modules))

    def _changed(self) -> bytes:
        rng, target = self._rng, self._target
        if not self._pool:
            self._pool.append(b"")
        words = self._dictionary()
        mix = mixer(rng, words, lambda: rng.choice(self._pool), target.max_bytes)
        recent = rng.random() < 0.5
        chosen = rng.choice(self._pool[-RECENT:] if recent else self._pool)
        return target.change(chosen, rng, mix)[: target.max_bytes]

    def _dictionary(self) -> Sequence[bytes]:
        if not hasattr(self, "_words"):
            chosen = self._target.modules
            found = {
                word
                for module, some in self._probes.words.items()
                if module.startswith(chosen)
                for word in some
            }
            self._words = sorted(found)
        return self._words

    def _try(self, data: bytes, keep: bool = False) -> None:
        self.outcome.tried += 1
        self._last.seek(0)
        self._last.truncate()
        self._last.write(data)
        self._last.flush()
        failure = self._failure(data)
        passed = self._probes.passed()
        if failure is not None:
            if failure.place not in self._places:
                self._places.add(failure.place)
                self.outcome.failures.append(self._shortened(failure))
            return
        _, more = self._seen.add(passed)
        if more or keep:
            self._pool.append(data)
        if more and not keep:
            self.outcome.kept.append(data)

    def _failure(self, data: bytes) -> Failure | None:
        self._probes.clear()
        try:
            bounded(self._run, data, self._target.cpu_s, self._errors)
        except (Exception, TooSlow) as error:
            return Failure(data, place_of(error), "".join(traceback.format_exception(error)))
        return None

    def _shortened(self, failure: Failure) -> Failure:
        """The failure of a shorter input at the same place."""
        size = len(failure.data) // 2
        tries = SHORTENINGS
        while size and tries:
            at = 0
            while at < len(failure.data) and tries:
                tries -= 1
                shorter = failure.data[:at] + failure.data[at + size :]
                found = self._failure(shorter)
                if found is not None and found.place == failure.place:
                    failure = found
                else:
                    at += size
            size //= 2
        return failure


def place_of(error: BaseException) -> str:
    """Type of an exception and the innermost line of kbroker, or of this test."""
    frames = traceback.extract_tb(error.__traceback__)
    of_kbroker = [
        frame for frame in frames if "/kbroker/" in frame.filename and "/tests/" not in frame.filename
    ]
    frame = (of_kbroker or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


@contextmanager
def prepared(target: Target) -> Iterator[Run]:
    """The target's function, with a folder for its files, in memory where the host has that."""
    memory = Path("/dev/shm")
    place = str(memory) if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kbroker-fuzz-", dir=place) as folder:
        yield target.prepare(Path(folder))


def replay(target: Target, inputs: Iterable[Input]) -> list[Failure]:
    """The failures of inputs; without coverage."""
    failures = []
    with prepared(target) as run, error_log(target.silent) as errors:
        for one in inputs:
            try:
                bounded(run, one.data, target.cpu_s, errors)
            except (Exception, TooSlow) as error:
                text = "".join(traceback.format_exception(error))
                failures.append(Failure(one.data, place_of(error), text))
    return failures
