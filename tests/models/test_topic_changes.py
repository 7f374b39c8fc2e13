"""Changes of a topic wait until none of its logs is being opened; the real `LogOpenings` waits as
the model does."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from kbroker.control.log_openings import LogOpenings
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states
from tests.models.topic_changes import TopicModel


def test_no_deleted_topic_has_a_log() -> None:
    found = explore(TopicModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 50
    assert found.states == documented_states("topic_changes")


@pytest.mark.parametrize("bug", ["no_wait", "counted_once", "opens_deleted", "closes_opening"])
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="a deleted topic has no log"):
        explore(TopicModel(**{bug: True}))


async def _waits(steps: list[str]) -> bool:
    """Whether a change waits after these steps of the model, made with the real object."""

    async def open_nothing(_: Any) -> dict[str, Any]:
        return {}

    openings = LogOpenings(open_nothing)
    pending: list[ExitStack] = []
    for step in steps:
        if step.startswith(("create_topics", "IoWorkers.greet")):
            stack = ExitStack()
            stack.enter_context(openings.opening(["t"]))
            pending.append(stack)
        elif step.endswith("opening ends"):
            pending.pop(0).close()
    waiting = asyncio.ensure_future(openings.wait(["t"]))
    await asyncio.sleep(0)
    waits = not waiting.done()
    for stack in pending:
        stack.close()
    await waiting
    return waits


def test_real_openings_hold_a_change_as_long_as_the_model() -> None:
    found = explore(TopicModel())
    for state in found.parents:
        if state.deleting == "wait":
            assert asyncio.run(_waits(found.way_to(state))) == (state.counted > 0), found.way_to(state)
