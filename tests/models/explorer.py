"""A small explicit-state model checker: every state that a model can reach, breadth first.

A model is a set of start states and a function from a state to its next steps. States are hashable
values, steps have a name. The first state that breaks a promise, or from which no step leads on, is
reported with the shortest way to it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

MAX_STATES = 200_000

S = TypeVar("S", bound=Hashable)


class Violation(AssertionError):
    """A promise that a model breaks. steps: names of the steps that lead there."""

    def __init__(self, promise: str, steps: list[str], state: object) -> None:
        self.promise = promise
        self.steps = steps
        lines = [f"{number:3} {step}" for number, step in enumerate(steps, 1)]
        super().__init__("\n".join([f"broken: {promise}", *lines, f"then: {state}"]))


class Model(Protocol[S]):
    """promises: by their words, what holds in every state."""

    @property
    def promises(self) -> Mapping[str, Callable[[S], bool]]: ...

    def starts(self) -> Iterable[S]:
        """The states in which it begins."""

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Each step that some process may take now, and the state that it leads to."""

    def is_end(self, state: S) -> bool:
        """Whether everything that was to be done is done: then nothing needs to go on."""


class Explored(NamedTuple, Generic[S]):
    """All states of a model. parents: of each state the step that first led to it, None of a
    start."""

    parents: dict[S, tuple[S, str] | None]
    transitions: int
    depth: int

    @property
    def states(self) -> int:
        return len(self.parents)

    def way_to(self, state: S) -> list[str]:
        """Names of the steps from a start to a state, as few as possible."""
        return _way(self.parents, state)


def _way(parents: Mapping[S, tuple[S, str] | None], state: S) -> list[str]:
    steps = []
    while (parent := parents[state]) is not None:
        state, step = parent
        steps.append(step)
    return steps[::-1]


def explore(model: Model[S], max_states: int = MAX_STATES) -> Explored[S]:
    """Visit every state. Raises Violation: of a promise; of the end, which must stay in reach from
    everywhere.

    A model with more than max_states states is an error: nothing would be proved."""
    parents: dict[S, tuple[S, str] | None] = {}
    before: dict[S, list[S]] = {}
    depths: dict[S, int] = {}
    waiting: deque[S] = deque()

    def reach(state: S, parent: tuple[S, str] | None, depth: int) -> None:
        if state in parents:
            return
        parents[state], depths[state] = parent, depth
        for words, holds in model.promises.items():
            if not holds(state):
                raise Violation(words, _way(parents, state), state)
        waiting.append(state)

    for start in model.starts():
        reach(start, None, 0)
    transitions = 0
    while waiting:
        state = waiting.popleft()
        for step, following in model.steps(state):
            transitions += 1
            before.setdefault(following, []).append(state)
            reach(following, (state, step), depths[state] + 1)
        if len(parents) > max_states:
            raise OverflowError(f"more than {max_states} states")
    _check_ends(model, parents, before)
    return Explored(parents, transitions, max(depths.values()))


def _check_ends(
    model: Model[S], parents: Mapping[S, tuple[S, str] | None], before: Mapping[S, list[S]]
) -> None:
    """An end can be reached from each state: no process waits forever, and no two only ever chase
    each other."""
    reaching = {state for state in parents if model.is_end(state)}
    waiting = list(reaching)
    while waiting:
        for state in before.get(waiting.pop(), ()):
            if state not in reaching:
                reaching.add(state)
                waiting.append(state)
    for state in parents:  # in the order of their depth
        if state not in reaching:
            raise Violation("an end stays in reach", _way(parents, state), state)
