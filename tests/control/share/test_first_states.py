"""A group that is deleted while its first states are being written leaves none behind."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.groups.share_group.member import SharedTopic
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.first_states import FirstStates
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world
from tests.control.share.scene import Scene


class InTurn(Scene):
    """Decided operations are in the log only once `written` is set; those of a key run in turn."""

    def __init__(self, made: World) -> None:
        super().__init__(made)
        self.decided = asyncio.Event()
        self.written = asyncio.Event()
        self._turn = asyncio.Lock()

    async def run(self, key: str, operation: Operation) -> None:
        async with self._turn:
            outcome = operation(5)
            self.decided.set()
            await self.written.wait()
            await super().run(key, lambda _: outcome)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("orders", 3)]))
        yield one


def _topics(scene: Scene) -> dict[bytes, SharedTopic]:
    return {scene.key.topic_id: SharedTopic("orders", frozenset({0, 1, 2}))}


def _initialize(scene: Scene) -> Coroutine[Any, Any, Any]:
    return scene.partitions.initialize("team", 2, _topics(scene))


def _open(scene: Scene) -> Coroutine[Any, Any, Any]:
    return scene.partitions.open(scene.key)


@pytest.mark.parametrize("begin", [_initialize, _open])
def test_first_states_that_are_being_written_are_deleted_with_their_group(
    made: World, begin: Callable[[Scene], Coroutine[Any, Any, Any]]
) -> None:
    async def body() -> None:
        scene = InTurn(made)
        writing = asyncio.create_task(begin(scene))
        await scene.decided.wait()
        deleting = asyncio.create_task(scene.partitions.delete_group("team"))
        await asyncio.sleep(0)
        scene.written.set()
        await deleting
        await asyncio.wait([writing])
        assert scene.shard.keys_of("team") == []

    asyncio.run(asyncio.wait_for(body(), 60))


def test_first_states_of_another_group_are_written(made: World) -> None:
    async def body() -> None:
        scene = InTurn(made)
        writing = asyncio.create_task(_initialize(scene))
        await scene.decided.wait()
        deleting = asyncio.create_task(scene.partitions.delete_group("other"))
        await asyncio.sleep(0)
        scene.written.set()
        await asyncio.gather(deleting, writing)
        assert len(scene.shard.keys_of("team")) == 3

    asyncio.run(asyncio.wait_for(body(), 60))


def test_a_refused_write_is_not_decided() -> None:
    states, key = FirstStates(), ShareKey("g", bytes(16), 0)
    with states.of("g") as writing:
        assert writing.unless_deleted(lambda now_ms: Outcome(response=now_ms), 7).response == 7
        assert states.refuse("other") == []
        assert states.refuse("g") == [], "no state is being written yet"
        writing.key = key
        assert states.refuse("g") == [key]
        with pytest.raises(KafkaError) as refused:
            writing.unless_deleted(lambda _: Outcome(), 7)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert states.refuse("g") == []


def test_a_partition_begins_at_the_start_that_is_decided_first(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may grow between two fetches that find no start."""

    async def body() -> None:
        scene = InTurn(made)
        starts = iter((4, 9))

        async def first_offset(*_: object) -> int:
            return next(starts)

        monkeypatch.setattr(scene.partitions, "_first_offset", first_offset)
        opening = [asyncio.create_task(_open(scene)) for _ in range(2)]
        await scene.decided.wait()
        scene.written.set()
        opened = await asyncio.gather(*opening)
        assert [each.start_offset for each in opened] == [4, 4]
        assert scene.start_offset() == 4
        assert not list(starts)

    asyncio.run(asyncio.wait_for(body(), 30))
