"""A fetch of a topic with a delay: what is due comes, the rest when its time has come."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import deliveries
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.delays import DELIVER_AT
from kbroker.control.share.deliveries import Deliveries
from kbroker.control.share.sessions import ShareSession
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.layout import Slot
from kbroker.protocol.records import NewRecord, read_all
from tests.control.fakes import World, world
from tests.control.share.scene import Scene

MEMBER = ShareSession("team", "a")
HOUR_MS = 3_600_000


class Stage:
    """A partition, empty at first, and a fetch of it."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.scene = Scene(made, {"share.auto.offset.reset": "earliest"})
        self.deliveries = Deliveries(
            made.broker, self.scene.partitions, lambda _: True, self.scene.freed.append
        )
        self.freed = self.scene.freed  # by timers, and by fetches that look further
        self.now_ms = made.broker.now_ms()

    def append(self, *in_ms: int | None, ago_ms: int = 0, value: bytes = b"") -> None:
        """A batch of records of so long ago; each due in in_ms by its header, None has no
        header."""
        partition = self.made.broker.catalogue.topics["orders"].partitions[0]
        records: list[NewRecord] = []
        for each in in_ms:
            headers = () if each is None else ((DELIVER_AT, b"%d" % (self.now_ms + each)),)
            records.append((None, value, headers, self.now_ms - ago_ms))
        self.made.worker.append(partition, *records)

    async def take(self, most: int = 500) -> list[int]:
        """The offsets that were acquired."""
        found = await self.deliveries.take(self.scene.key, MEMBER, 1 << 26, Spec(most, strict=True))
        if found is None:
            return []
        offsets = [offset for each in found[1] for offset in range(each.first, each.last + 1)]
        assert set(offsets) <= {each.offset for each in read_all(found[0])}
        return offsets

    async def accept(self, *offsets: int) -> None:
        partition = await self.scene.partitions.open(self.scene.key)
        batches = [AcknowledgedBatch(each, each, [AcknowledgeType.ACCEPT]) for each in offsets]
        partition.acknowledge("a", batches, self.scene.partitions.limits("team"), 0)
        await self.scene.partitions.settle(self.scene.key, partition)


Test = Callable[[Stage], Coroutine[Any, Any, None]]


class Play(Protocol):
    """Runs a test with a topic of this delay."""

    def __call__(self, test: Test, delay_ms: int = 0) -> None: ...


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    with world(tmp_path) as made:

        def run(test: Test, delay_ms: int = 0) -> None:
            configs = {"kbroker.delivery.delay.ms": str(delay_ms)}
            asyncio.run(create_topics(made.broker, [NewTopic("orders", 1, configs=configs)]))

            async def body() -> None:
                await test(Stage(made))

            asyncio.run(body())

        yield run


def test_due_records_are_delivered_before_earlier_ones_that_are_not_due(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.append(HOUR_MS, None, HOUR_MS)
        stage.append(HOUR_MS)
        stage.append(-5, HOUR_MS, None)
        assert await stage.take() == [1, 4, 6]
        assert await stage.take() == []

    play(test)


def test_the_delay_counts_from_the_timestamp(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.append(None, -1, ago_ms=HOUR_MS - 60_000)
        stage.append(None, HOUR_MS, ago_ms=HOUR_MS)
        assert await stage.take() == [1, 2]

    play(test, HOUR_MS)


def test_without_the_setting_no_header_is_read(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.append(HOUR_MS, None, HOUR_MS)
        assert await stage.take() == [0, 1, 2]

    play(test, -1)


def test_a_waiting_fetch_is_woken_when_a_record_is_due(play: Play) -> None:
    async def test(stage: Stage) -> None:
        due = {0: 5000, 2: 4500}
        stage.append(due[0], None, due[2])
        assert await stage.take() == [1]
        stage.freed.clear()
        found: list[int] = []
        while len(found) < 2:
            assert stage.made.broker.now_ms() < stage.now_ms + 120_000
            await asyncio.sleep(0.005)
            if stage.freed:
                stage.freed.clear()
                taken = await stage.take()
                found += taken
                assert all(stage.made.broker.now_ms() >= stage.now_ms + due[offset] for offset in taken)
        assert sorted(found) == [0, 2]

    play(test)


def test_a_fetch_that_finds_nothing_due_looks_further(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "CHECK_BYTES", 1000)

    async def test(stage: Stage) -> None:
        for _ in range(30):
            stage.append(*[HOUR_MS] * 3, value=b"x" * 100)
        stage.append(None)
        looks = 0
        while not (found := await stage.take()):
            looks += 1
            assert stage.freed == [stage.scene.key]
            stage.freed.clear()
        assert found == [90]
        assert looks >= 10
        assert await stage.take() == []
        assert not stage.freed

    play(test)


def test_thousands_that_wait_do_not_hold_up_the_rest(play: Play) -> None:
    async def test(stage: Stage) -> None:
        for _ in range(50):
            stage.append(*[HOUR_MS] * 100)
        for _ in range(10):
            stage.append(*[None] * 100)
        found: list[int] = []
        while len(found) < 1000:
            taken = await stage.take()
            assert taken or stage.freed  # it continues, now or after a check of the next
            await stage.accept(*taken)
            found += taken
        assert found == list(range(5000, 6000))
        partition = await stage.scene.partitions.open(stage.scene.key)
        assert len(partition._in_flight.ranges) < 10
        assert partition.in_flight() == 5000

    play(test)


def test_a_restart_holds_back_what_is_still_not_due(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage) -> None:
        stage.append(3 * HOUR_MS, None, HOUR_MS)
        assert await stage.take() == [1]
        await stage.accept(1)
        stage.scene.partitions.forget(stage.scene.key)
        assert await stage.take() == []
        monkeypatch.setattr(Broker, "now_ms", lambda _: stage.now_ms + 2 * HOUR_MS)
        stage.scene.partitions.forget(stage.scene.key)
        assert await stage.take() == [2]

    play(test)


def test_records_that_expire_before_they_are_due_are_passed_over(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.append(HOUR_MS, HOUR_MS, HOUR_MS)
        assert await stage.take() == []
        stage.made.worker.shared.slots[
            stage.made.broker.catalogue.topics["orders"].partitions[0].slot, Slot.LOG_START
        ] = 2
        stage.append(None)
        assert await stage.take() == [3]
        partition = await stage.scene.partitions.open(stage.scene.key)
        assert partition.start_offset == 2

    play(test)


def test_a_record_released_during_a_check_is_not_delivered_unchecked(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time to be looked at has come, which need not be the time when it is due."""

    async def test(stage: Stage) -> None:
        stage.append(None)
        stage.append(HOUR_MS)
        partition = await stage.scene.partitions.open(stage.scene.key)
        partition.use_delay(0)
        partition.hold_back(1, 1, 1)
        check = stage.deliveries._check_delays

        async def and_it_comes_free(*arguments: Any) -> Any:
            found = await check(*arguments)
            partition.end_pauses(1)
            return found

        monkeypatch.setattr(stage.deliveries, "_check_delays", and_it_comes_free)
        assert await stage.take() == [0]
        assert await stage.take() == []

    play(test)


def test_locks_do_not_depend_on_the_wall_clock(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be set while a member has records."""

    async def test(stage: Stage) -> None:
        stage.append(None)
        monkeypatch.setattr(Broker, "now_ms", lambda _: stage.now_ms + HOUR_MS)
        began_ms = monotonic_ms()
        assert await stage.take() == [0]
        partition = await stage.scene.partitions.open(stage.scene.key)
        deadline_ms = partition.next_deadline_ms()
        assert deadline_ms is not None
        assert began_ms <= deadline_ms - stage.scene.partitions.limits("team").lock_ms <= monotonic_ms()

    play(test)
