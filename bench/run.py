"""The turns: both brokers run every scenario, one after the other, in alternating order."""

import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from bench.generator import Generator, LoadFailed, compile_generator, find_librdkafka
from bench.profiler import Profiler
from bench.results import LIMIT, Sample
from bench.scenario import Scenario
from bench.schedule import COST, Schedule
from bench.size import Size
from bench.targets import KafkaOptions, KafkaTarget, KbrokerTarget, Target, TargetFailed
from bench.turn import Measures, Turn
from bench.warm_up import warm_up


@contextmanager
def running(target: Target) -> Iterator[Target]:
    """A launched, ready broker; stopped at the end."""
    target.prepare()
    target.launch()
    try:
        target.wait_ready()
        yield target
    finally:
        target.stop()


def make_targets(
    names: Sequence[str], folder: Path, generator: Generator, kafka: KafkaOptions, congestion: str
) -> list[Target]:
    """The brokers by name, in folders of their own, not launched."""
    made: list[Target] = []
    for name in names:
        place = folder / name
        place.mkdir(parents=True)
        if name == "kafka":
            made.append(KafkaTarget(place, generator, kafka))
        else:
            made.append(KbrokerTarget(place, generator, congestion))
    return made


class Run:
    """Both brokers live through the whole run, and only the one whose turn it is runs: the other
    is paused. A JVM is warmed up for each scenario."""

    def __init__(
        self, targets: Sequence[Target], generator: Generator, size: Size, profiles: Path | None
    ) -> None:
        self.targets = targets
        self.generator = generator
        self.size = size
        self.profiles = profiles
        self.kept: dict[str, set[str]] = {target.name: set() for target in targets}
        self.numbers = itertools.count(1)
        self.warmed: dict[str, float] = {}
        """Seconds of unmeasured work before the first measured turn, by scenario."""
        self.kinds: set[str] = set()
        """Kinds of scenarios (Scenario.kind) for which the JVM has been warmed up."""

    def samples(self, schedule: Schedule) -> Iterator[Sample]:
        """Yields each sample as soon as it is measured."""
        with ExitStack() as stack:
            for target in self.targets:
                stack.enter_context(running(target))
            by_name = {target.name: target for target in self.targets}
            for number, scenario, missing in schedule:
                for target in map(by_name.__getitem__, missing):
                    self.give_way(target)
                    self.warm_jvm(scenario, target)
                    sample = self.turn(number, scenario, target)
                    schedule.note(sample)
                    yield sample

    def give_way(self, target: Target) -> None:
        """Pauses the other brokers, and wakes this one. An idle broker delays the acks of the
        other: docs/lab/ack-latency.md."""
        for other in self.targets:
            if other is not target:
                other.pause()
        target.resume()
        target.wait_ready()
        time.sleep(self.size.settle_seconds)

    def warm_jvm(self, scenario: Scenario, target: Target) -> None:
        """Once for each scenario that works on the running broker; long for the first of its
        kind."""
        again = scenario.kind in self.kinds
        seconds = self.size.jvm_again_seconds if again else self.size.jvm_warm_seconds
        if not seconds or target.name != "kafka" or scenario.new_broker or scenario.name in self.warmed:
            return
        self.warmed[scenario.name] = 0.0

        def run() -> Measures:
            return self.turn(0, scenario, target).figures

        self.warmed[scenario.name] = warm_up(scenario, run, seconds)
        self.kinds.add(scenario.kind)

    def turn(self, number: int, scenario: Scenario, target: Target) -> Sample:
        """Run a scenario on a target; a failure is a sample, too."""
        profiler = Profiler(self.profiles, scenario.name) if self.profiles else None
        turn = Turn(target, self.generator, self.size, next(self.numbers), self.kept[target.name], profiler)
        turn.sync()
        begun = time.monotonic()
        try:
            figures = scenario.run(turn)
            turn.clean_up()
            if scenario.limit and number:
                figures[LIMIT] = scenario.limit.run(turn)
        except (LoadFailed, TargetFailed, KafkaException) as failure:
            self._recover(turn)
            spent = {COST: time.monotonic() - begun}
            return Sample(number, target.name, scenario.name, spent, failure=str(failure))
        figures[COST] = time.monotonic() - begun
        return Sample(number, target.name, scenario.name, figures)

    def _recover(self, turn: Turn) -> None:
        """After a failed turn: start the broker again if it has ended, and remove the turn's topics
        as far as possible."""
        if turn.target.has_ended:
            turn.target.process = None
            turn.target.launch()
            turn.target.wait_ready()
        with suppress(KafkaException):
            turn.clean_up()


@contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """An empty folder for the brokers' data, removed at the end."""
    place = folder / "brokers"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def make_generator() -> Generator:
    return Generator(compile_generator(), find_librdkafka())
