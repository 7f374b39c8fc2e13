"""Traces of the code as paths of a model: the tie between both.

A trace lists what the code did, by the names of the model's steps, and what showed of its state in
between. It is a path of the model if the model can do the same: steps from a start that have these
names and lead to states that show the same. A trace that no path has means that one of both is
wrong, and what it was up to then says where they part.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from tests.models.explorer import Model, explore

S = TypeVar("S", bound=Hashable)
MUTATED = 20
"""Runs of which steps are left out."""


class Seen(NamedTuple):
    """What showed of the code's state when it rested."""

    state: Hashable


Trace = Sequence[str | Seen]


class NoPath(AssertionError):
    """A trace that is no path of its model. event: the number of the first event that the model
    cannot follow."""

    def __init__(self, trace: Trace, event: int, instead: Iterable[object]) -> None:
        self.event = event
        lines = [f"{number:3} {each}" for number, each in enumerate(trace[: event + 1], 1)]
        could = [f"    {each}" for each in instead]
        super().__init__("\n".join(["no path of the model:", *lines, "the model could:", *could]))


class Paths(Generic[S]):
    """The paths of a model. shows: what the code would show of a state. hidden: names of steps that
    the code does not show; they may lie between any two events."""

    def __init__(self, model: Model[S], shows: Callable[[S], Hashable], hidden: Collection[str] = ()) -> None:
        self._model, self._shows, self._hidden = model, shows, frozenset(hidden)
        self._steps: dict[S, list[tuple[str, S]]] = {}
        self.taken: set[str] = set()
        """Kinds of steps in the traces that were followed."""

    def _next(self, state: S) -> list[tuple[str, S]]:
        steps = self._steps.get(state)
        if steps is None:
            steps = self._steps[state] = list(self._model.steps(state))
        return steps

    def _with_hidden(self, states: Iterable[S]) -> set[S]:
        """These states and those that hidden steps lead to."""
        found = set(states)
        waiting = list(found)
        while waiting:
            for name, after in self._next(waiting.pop()):
                if name in self._hidden and after not in found:
                    found.add(after)
                    waiting.append(after)
        return found

    def follow(self, trace: Trace) -> None:
        """Raises NoPath if the trace is no path from a start to an end."""
        states = self._with_hidden(self._model.starts())
        for number, event in enumerate(trace):
            if isinstance(event, Seen):
                after = {state for state in states if self._shows(state) == event.state}
            else:
                after = {one for state in states for name, one in self._next(state) if name == event}
            if not after:
                raise NoPath(trace, number, self._possible(states, isinstance(event, Seen)))
            states = self._with_hidden(after)
        if not any(self._model.is_end(state) for state in states):
            raise NoPath([*trace, "the end"], len(trace), states)
        self.taken |= {kind_of(each) for each in trace if isinstance(each, str)}

    def _possible(self, states: Iterable[S], shown: bool) -> set[Hashable]:
        if shown:
            return {self._shows(state) for state in states}
        return {name for state in states for name, _ in self._next(state)}

    def refuses(self, trace: Trace) -> bool:
        """Whether the trace is no path."""
        try:
            self.follow(trace)
        except NoPath:
            return True
        return False

    def kinds(self) -> set[str]:
        """The kinds of all steps that the code shows."""
        names = {name for state in explore(self._model).parents for name, _ in self._next(state)}
        return {kind_of(name) for name in names - self._hidden}


def kind_of(step: str) -> str:
    """The kind of a step: its name without numbers."""
    return re.sub(r"\d+", "N", step)


def mutants(trace: Trace, silent: Collection[str] = ()) -> Iterator[Trace]:
    """The trace without each of its steps in turn, but those of the silent kinds."""
    for number, event in enumerate(trace):
        if isinstance(event, str) and kind_of(event) not in silent:
            yield [*trace[:number], *trace[number + 1 :]]


def check_runs(paths: Paths[S], runs: Mapping[int, Trace], silent: Collection[str] = ()) -> None:
    """Each run is a path of the model, together they take every kind of its steps, and none of them
    is a path without one of its steps. runs: by seed, which repeats it. silent: kinds of steps that
    may change nothing which shows."""
    print(f"{len(runs)} runs, seeds {min(runs)} to {max(runs)}")
    for seed, trace in runs.items():
        try:
            paths.follow(trace)
        except NoPath as error:
            error.add_note(f"seed {seed}")
            raise
    assert paths.taken == paths.kinds(), paths.taken ^ paths.kinds()
    for seed, trace in list(runs.items())[:MUTATED]:
        for mutant in mutants(trace, silent):
            assert paths.refuses(mutant), (seed, mutant)
