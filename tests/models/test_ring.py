"""Rings and sleep flags: no entry is lost or torn and no wake-up is missed, in any order of steps
and stores; the real functions go where the model says.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pytest

from kbroker.ipc.layout import AppendEntry, ProcessLine
from kbroker.ipc.ring import Sleeper, ring_length, ring_push, ring_take, wake_process
from kbroker.ipc.shared import Shared, Sizes
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states
from tests.models.ring import RingModel

CAPACITY = 2
ENTRIES = 3
IO_WORKER = 1


def test_no_entry_and_no_wake_up_is_lost_in_any_interleaving() -> None:
    found = explore(RingModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 1_500
    assert found.states == documented_states("ring")


@pytest.mark.parametrize(
    ("model", "promise", "last"),
    [
        (RingModel(head_is_plain=True), "as they were pushed", "ring_take: read it, then store TAIL"),
        (RingModel(tail_first=True), "as they were pushed", "ring_take: read it, then store TAIL"),
        (RingModel(no_fence=True), "an end stays in reach", "nothing is there"),
        (RingModel(one_look=True), "an end stays in reach", "wake: load the flag"),
    ],
    ids=["HEAD published with a plain store", "TAIL before the entry", "wake without a fence", "one look"],
)
def test_bug_that_is_put_back_is_found(model: RingModel, promise: str, last: str) -> None:
    with pytest.raises(Violation, match=promise) as broken:
        explore(model)
    assert broken.value.steps[-1] == last


class Calls(NamedTuple):
    """What the real functions leave, one call after the other: counts, the flag, the eventfd."""

    head: int = 0
    tail: int = 0
    sleeping: int = 0
    rung: int = 0


class CallsModel:
    """Both sides in whole calls, which `Real` makes on shared memory."""

    promises: Mapping[str, Callable[[Calls], bool]] = {
        "the ring holds no more than its capacity": lambda s: 0 <= s.head - s.tail <= CAPACITY
    }

    def starts(self) -> Iterator[Calls]:
        yield Calls()

    def steps(self, s: Calls) -> Iterator[tuple[str, Calls]]:
        if s.head < ENTRIES:
            yield "push", s._replace(head=s.head + 1) if s.head - s.tail < CAPACITY else s
        yield "wake", s._replace(sleeping=0, rung=s.rung | s.sleeping)
        yield "take", s._replace(tail=min(s.head, s.tail + 1))
        yield "take all", s._replace(tail=s.head)
        yield "announce", s._replace(sleeping=1)
        yield "awake", s._replace(sleeping=0)
        yield "clear", s._replace(rung=0)

    def is_end(self, s: Calls) -> bool:
        return True


class Real:
    """A ring in shared memory, its producer and its consumer."""

    def __init__(self) -> None:
        self.shared = Shared(
            Sizes(clients=1, workers=1, max_partitions=1, ring_entries=CAPACITY, arena_bytes=4096)
        )
        self.ring = self.shared.append_ring(0, 0)
        self.sleeper = Sleeper(self.shared, IO_WORKER)
        self.pushed = 0
        self.taken: list[int] = []

    def step(self, name: str) -> None:
        if name == "push":
            entry = np.full(AppendEntry.WORDS, self.pushed + 1, np.int64)
            self.pushed += int(ring_push(self.ring, CAPACITY, entry))
        elif name.startswith("take"):
            out = AppendEntry.table(1 if name == "take" else ENTRIES)
            count = ring_take(self.ring, CAPACITY, out)
            self.taken += out[:count, 0].tolist()
        elif name == "wake":
            wake_process(self.shared, IO_WORKER)
        else:
            getattr(self.sleeper, name)()

    def end(self) -> Calls:
        """What can be seen; the eventfd is read, so this is the last step."""
        try:
            rung = os.eventfd_read(self.sleeper.event_fd)
        except BlockingIOError:
            rung = 0
        sleeping = int(self.shared.processes[IO_WORKER, ProcessLine.SLEEPING])
        return Calls(self.pushed, self.pushed - ring_length(self.ring), sleeping, int(rung > 0))


def test_real_functions_go_where_the_model_says() -> None:
    """Every transition of the model, each from the state that the real functions have reached by
    the shortest way."""
    model = CallsModel()
    found = explore(model)
    for state in found.parents:
        for name, following in model.steps(state):
            real = Real()
            for step in [*found.way_to(state), name]:
                real.step(step)
            assert real.end() == following, f"{found.way_to(state)}, {name}"
            assert real.taken == list(range(1, following.tail + 1))
    assert found.transitions > 200
