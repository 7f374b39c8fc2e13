"""What a fetch takes from a partition: whole batches of what its member acquired, one fetch at a
time."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import deliveries as module
from kbroker.control.share import reading
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.deliveries import Deliveries
from kbroker.control.share.ranges import DeliveryState
from kbroker.control.share.reading import Piece
from kbroker.control.share.sessions import ShareSession
from kbroker.control.share.share_partition import Acquired, SharePartition
from kbroker.protocol.records import read_all
from tests.control.fakes import World, world
from tests.control.share.scene import Scene

MANY = 1 << 20
A, B = ShareSession("team", "a"), ShareSession("team", "b")

Test = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A partition with three batches: offsets 0 and 1, 2 and 3, 4 and 5."""

    def __init__(self, made: World) -> None:
        self.scene = Scene(made, {"share.auto.offset.reset": "earliest"})
        self.ended: set[str] = set()
        self.freed: list[object] = []
        self.deliveries = Deliveries(
            made.broker,
            self.scene.partitions,
            lambda session: session.member_id not in self.ended,
            self.freed.append,
        )
        partition = made.broker.catalogue.topics["orders"].partitions[0]
        for number in range(0, 6, 2):
            records = [(None, b"%d" % (number + more), (), 0) for more in range(2)]
            made.worker.append(partition, *records)

    async def take(self, session: ShareSession, most: int = 500) -> tuple[list[int], list[Acquired]] | None:
        """(offsets in the batches, what was acquired)."""
        found = await self.deliveries.take(self.scene.key, session, MANY, Spec(most, strict=True))
        return None if found is None else ([each.offset for each in read_all(found[0])], found[1])


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        async def body(made: World) -> None:
            await test(Stage(made))

        with world(tmp_path) as made:
            asyncio.run(create_topics(made.broker, [NewTopic("orders", 1)]))
            asyncio.run(body(made))

    return run


def test_the_batches_hold_what_was_acquired_and_no_others(play: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        assert await stage.take(A, 3) == ([0, 1, 2, 3], [Acquired(0, 2, 1)])
        assert await stage.take(B) == ([2, 3, 4, 5], [Acquired(3, 3, 1), Acquired(4, 5, 1)])

    play(test)


def test_batches_between_two_that_were_released_are_left_out(play: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        await stage.take(A)
        partition = await stage.scene.partitions.open(stage.scene.key)
        limits = stage.scene.partitions.limits("team")
        released = [AcknowledgedBatch(each, each, [AcknowledgeType.RELEASE]) for each in (1, 4)]
        partition.acknowledge("a", released, limits, 0)
        assert await stage.take(B) == ([0, 1, 4, 5], [Acquired(1, 1, 2), Acquired(4, 4, 2)])

    play(test)


def test_a_second_fetch_is_passed_by_and_woken_after_the_first(play: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        first = asyncio.ensure_future(stage.take(A))
        await asyncio.sleep(0)
        assert await stage.take(B) is None
        assert not stage.freed
        assert await first == ([0, 1, 2, 3, 4, 5], [Acquired(0, 5, 1)])
        assert stage.freed == [stage.scene.key]

    play(test)


def test_a_session_that_ended_meanwhile_acquires_nothing(play: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        stage.ended.add("a")
        assert await stage.take(A) == ([], [])
        assert await stage.take(B) == ([0, 1, 2, 3, 4, 5], [Acquired(0, 5, 1)])

    play(test)


def test_a_loaded_partition_is_in_use(play: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        assert stage.scene.partitions.get(stage.scene.key) is None
        await stage.deliveries.load(stage.scene.key)
        assert stage.scene.partitions.get(stage.scene.key) is not None

    play(test)


def test_a_partition_that_was_unloaded_meanwhile_is_not_acquired_from(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stage: Stage) -> None:
        read = reading.read_pieces

        async def forgetting(*args: Any) -> list[Piece]:
            pieces = await read(*args)
            stage.scene.partitions.forget(stage.scene.key)
            return pieces

        monkeypatch.setattr(module, "read_pieces", forgetting)
        assert await stage.take(A) == ([], [])
        monkeypatch.setattr(module, "read_pieces", read)
        assert await stage.take(B) == ([0, 1, 2, 3, 4, 5], [Acquired(0, 5, 1)])

    play(test)


def test_a_fetch_offers_the_records_from_its_first_one_on(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that holds it may hold records before it."""

    async def test(stage: Stage) -> None:
        await stage.take(A, 3)
        offered: list[list[tuple[int, int]]] = []
        acquire = SharePartition.acquire

        def noting(part: SharePartition, member: str, batches: Any, *more: Any) -> list[Acquired]:
            offered.append(list(batches))
            return acquire(part, member, offered[-1], *more)

        monkeypatch.setattr(SharePartition, "acquire", noting)
        await stage.take(B)
        assert offered == [[(3, 3), (4, 5)]]

    play(test)


def test_batches_that_follow_one_another_leave_nothing_to_pass_over() -> None:
    partition = SharePartition(0)
    module._pass_over(partition, [Piece(0, 1, True, b""), Piece(2, 3, True, b"")], 0)
    assert (partition.end_offset, partition.take_changes()) == (-1, None)


def test_offsets_that_compaction_removed_between_batches_are_passed_over() -> None:
    partition = SharePartition(0)
    module._pass_over(partition, [Piece(0, 1, True, b""), Piece(4, 5, True, b"")], 0)
    changes = partition.take_changes()
    assert changes is not None
    assert [(each.first, each.last, each.state) for each in changes[1]] == [(2, 3, DeliveryState.ARCHIVED)]
