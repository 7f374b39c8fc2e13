"""A change of few logs is answered when they are open, a large one before; nothing touches them
meanwhile."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.alter import Alteration
from kbroker.control import broker, log_openings
from kbroker.control.changes import config_change
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.internal_topic import ensure
from kbroker.control.changes.topic_change import create_topics, delete_topics, grow_topic
from kbroker.control.log_openings import opened_by
from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.ipc import messages as m
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.link import LinkClosed
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FakeWorker, World, world


class SlowWorker(FakeWorker):
    """Opens logs when `go` is set."""

    def __init__(self, made: World) -> None:
        super().__init__(made.shared)
        self.go = asyncio.Event()

    def call(self, body: Any) -> Awaitable[Any]:
        if not isinstance(body, m.OpenPartition):
            return super().call(body)

        async def later() -> Any:
            await self.go.wait()
            return await super(SlowWorker, self).call(body)

        return later()


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_openings, "MAX_AWAITED", 3)


def slow(made: World) -> SlowWorker:
    worker = SlowWorker(made)
    made.broker.links.add_worker(0, worker)
    return worker


@pytest.mark.parametrize(("partitions", "answered"), [(3, False), (4, True)])
def test_a_large_creation_is_answered_before_its_logs_are_open(
    tmp_path: Path, partitions: int, answered: bool
) -> None:
    async def run(made: World) -> None:
        worker = slow(made)
        creation = asyncio.ensure_future(create_topics(made.broker, [NewTopic("a", partitions)]))
        await asyncio.wait([creation], timeout=60 if answered else 0.5)  # a disk may be slow
        assert creation.done() is answered
        assert ("a" in made.broker.catalogue.topics) is answered
        worker.go.set()
        await creation
        await made.broker.log_openings.wait(["a"])
        assert len(worker.opened) == partitions
        assert all(made.broker.is_online(p) for p in made.broker.catalogue.topics["a"].partitions)

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_other_changes_do_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One site's disk kept all topics from being created, deleted or configured, without an
    answer."""

    async def run(made: World) -> None:
        openings = made.broker.log_openings
        await create_topics(made.broker, [NewTopic("old", 1)])
        worker = slow(made)
        monkeypatch.setattr(log_openings, "OPEN_S", 0.05)
        monkeypatch.setattr(log_openings, "AGAIN_S", 0.05)
        assert isinstance((await create_topics(made.broker, [NewTopic("a", 1)]))["a"], TopicPlan)
        await grow_topic(made.broker, "old", 2)
        assert openings.pending("a")
        assert openings.pending("old")
        assert len(made.broker.catalogue.topics["old"].partitions) == 2
        assert not made.broker.opening
        worker.refuse[m.OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no such disk")
        worker.go.set()
        await openings.wait(["a", "old"])
        assert len(openings.without_room) == 2

    with world(tmp_path) as made:
        asyncio.run(run(made))
    assert "new partitions of a: KAFKA_STORAGE_ERROR: no such disk" in caplog.text


def test_only_the_first_of_many_creations_waits_long_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the lock of changes in turn: the hundredth waited for a quarter of an hour."""
    monkeypatch.setattr(log_openings, "OPEN_S", 0.05)
    monkeypatch.setattr(log_openings, "AGAIN_S", 0.05)

    async def run(made: World) -> None:
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 1)])
        monkeypatch.setattr(log_openings, "OPEN_S", 600.0)
        async with asyncio.timeout(30):
            await create_topics(made.broker, [NewTopic("b", 1)])
        worker.go.set()
        await made.broker.log_openings.wait(["a", "b"])
        worker.go.clear()
        creation = asyncio.ensure_future(create_topics(made.broker, [NewTopic("c", 1)]))
        await asyncio.wait([creation], timeout=0.5)
        assert not creation.done()
        worker.go.set()
        await creation

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_logs_of_other_workers_are_opened_while_one_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many calls as may be pending waited for it, and no others were sent."""
    monkeypatch.setattr(log_openings, "OPEN_S", 600.0)
    monkeypatch.setattr(log_openings, "MAX_AWAITED", 10)
    monkeypatch.setattr(broker, "OPENS_AT_ONCE", 2)
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))

    async def run(made: World) -> None:
        worker = slow(made)
        creation = asyncio.ensure_future(create_topics(made.broker, [NewTopic("a", 5, 2)]))
        async with asyncio.timeout(60):
            while len(made.workers[1].opened) < 5:
                await asyncio.sleep(0.001)
        assert not worker.opened
        assert not creation.done()
        worker.go.set()
        await creation
        await made.broker.log_openings.wait(["a"])
        assert len(worker.opened) == 5

    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2) as made:
        asyncio.run(run(made))


@pytest.mark.parametrize("deleted", [False, True])
def test_a_successor_opens_a_log_in_the_role_that_it_has_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    """It took the role of before an election, and did not follow the leader. A replica that was
    removed meanwhile got its folder again."""
    monkeypatch.setattr(log_openings, "OPEN_S", 0.05)

    async def run(made: World) -> None:
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 1)])
        (partition,) = made.broker.catalogue.topics["a"].partitions
        worker.refuse[m.OpenPartition] = LinkClosed()  # type: ignore[assignment]
        successor = FakeWorker(made.shared)
        made.broker.links.add_worker(0, successor)
        partition.leader_epoch = 3
        if deleted:
            partition.replicas = []
        worker.go.set()
        await made.broker.log_openings.wait(["a"])
        assert [call.leader_epoch for call in successor.opened.values()] == [3] * (not deleted)

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_a_config_is_applied_to_the_logs_that_are_open_while_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends to them were answered from the page cache until a disk that hung continued, although
    the change to write.caching=false had been answered."""

    async def run(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a", 1)])
        worker = slow(made)
        monkeypatch.setattr(log_openings, "OPEN_S", 0.05)
        monkeypatch.setattr(config_change, "APPLY_S", 0.05)
        await grow_topic(made.broker, "a", 2)
        await alter(made.broker, TOPIC, "a", [Alteration("write.caching", 0, "false")], False)
        slots = [partition.slot for partition in made.broker.catalogue.topics["a"].partitions]
        assert all(made.shared.slots[slots, Slot.FLAGS] & SlotFlag.DURABLE)
        assert [call.slot for call in worker.calls if isinstance(call, m.ConfigurePartition)] == slots[:1]
        worker.go.set()
        await made.broker.log_openings.changes.wait(60)
        configured = {call.slot for call in worker.calls if isinstance(call, m.ConfigurePartition)}
        assert configured == set(slots)

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_a_change_of_a_topic_whose_logs_are_not_opened_waits_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other changes waited with it. A config is stored, and applied when the logs are open."""

    async def run(made: World) -> None:
        await create_topics(made.broker, [NewTopic("open", 1)])
        worker = slow(made)
        monkeypatch.setattr(log_openings, "OPEN_S", 0.05)
        monkeypatch.setattr(config_change, "APPLY_S", 0.05)
        await create_topics(made.broker, [NewTopic("a", 5)])
        topics = [made.broker.catalogue.topics[name] for name in ("a", "open")]
        async with asyncio.timeout(30):
            errors = await delete_topics(made.broker, lambda: topics)
            assert [error and error.code for error in errors] == [ErrorCode.REQUEST_TIMED_OUT, None]
            with pytest.raises(KafkaError, match="still being opened") as refused:
                await grow_topic(made.broker, "a", 6)
            assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
            await alter(made.broker, TOPIC, "a", [Alteration("retention.ms", 0, "5")], False)
        assert list(made.broker.catalogue.topics) == ["a"]
        assert len(made.broker.stores.first.load().topics[0].partitions) == 5
        assert made.broker.override(TOPIC, "a") == {"retention.ms": "5"}
        assert not any(isinstance(call, m.ConfigurePartition) for call in worker.calls)
        worker.go.set()
        await made.broker.log_openings.changes.wait(60)
        configured = [
            call.config.retention_ms for call in worker.calls if isinstance(call, m.ConfigurePartition)
        ]
        assert configured == [5] * 5
        assert await delete_topics(made.broker, lambda: topics[:1]) == [None]

    with world(tmp_path) as made:
        asyncio.run(run(made))


@pytest.mark.parametrize("change", ["delete", "grow"])
def test_a_change_waits_for_logs_as_long_as_its_client_and_others_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A topic of thousands of partitions could not grow right after its creation where files are
    slow."""
    monkeypatch.setattr(log_openings, "OPEN_S", 0.05)

    async def run(made: World) -> None:
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 5)])
        topic = made.broker.catalogue.topics["a"]
        pending: Awaitable[Any] = {
            "delete": lambda: delete_topics(made.broker, lambda: [topic], timeout_ms=60_000),
            "grow": lambda: grow_topic(made.broker, "a", 6, end_s=opened_by(60_000)),
        }[change]()
        waiting = asyncio.ensure_future(pending)
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        await asyncio.wait_for(made.broker.changing.acquire(), 60)
        made.broker.changing.release()
        worker.go.set()
        assert await waiting == {"delete": [None], "grow": None}[change]
        await made.broker.late_closings.wait(60)  # of so many logs
        assert len(worker.opened) == {"delete": 0, "grow": 6}[change]

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_a_change_does_not_wait_without_end_for_a_client_that_would() -> None:
    async def wait_s(timeout_ms: int) -> float:
        return opened_by(timeout_ms) - asyncio.get_running_loop().time()

    assert asyncio.run(wait_s(2**31 - 1)) == pytest.approx(log_openings.MAX_OPEN_S, abs=1)
    assert asyncio.run(wait_s(-1)) == pytest.approx(log_openings.OPEN_S, abs=1)
    assert asyncio.run(wait_s(60_000)) == pytest.approx(59, abs=0.9)


def test_a_topic_is_deleted_while_a_deletion_waits_for_logs_of_another(tmp_path: Path) -> None:
    async def run(made: World) -> None:
        await create_topics(made.broker, [NewTopic("open", 1)])
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 5)])
        first, second = ([made.broker.catalogue.topics[name]] for name in ("a", "open"))
        waiting = asyncio.ensure_future(delete_topics(made.broker, lambda: first))
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert await delete_topics(made.broker, lambda: second) == [None]
        assert not waiting.done()
        worker.go.set()
        assert await waiting == [None]

    with world(tmp_path) as made:
        asyncio.run(run(made))


@pytest.mark.parametrize("change", ["delete", "grow", "configure"])
def test_a_change_of_a_topic_waits_until_its_logs_are_open(tmp_path: Path, change: str) -> None:
    async def run(made: World) -> None:
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 5)])
        topic = made.broker.catalogue.topics["a"]
        pending: Awaitable[Any] = {
            "delete": lambda: delete_topics(made.broker, lambda: [topic]),
            "grow": lambda: grow_topic(made.broker, "a", 6),
            "configure": lambda: alter(made.broker, TOPIC, "a", [Alteration("retention.ms", 0, "5")], False),
        }[change]()
        waiting = asyncio.ensure_future(pending)
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        assert not [call for call in worker.calls if not isinstance(call, m.OpenPartition)]
        worker.go.set()
        await waiting
        await made.broker.late_closings.wait(60)  # of so many logs
        kinds = [type(call) for call in worker.calls]
        if change != "grow":
            assert kinds[:5] == [m.OpenPartition] * 5
            assert len(kinds) == 10

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_another_topic_does_not_wait_for_them(tmp_path: Path) -> None:
    async def run(made: World) -> None:
        worker = slow(made)
        await create_topics(made.broker, [NewTopic("a", 5)])
        await create_topics(made.broker, [NewTopic("b", 5)])
        worker.go.set()
        await made.broker.log_openings.wait(["a", "b"])
        assert len(worker.opened) == 10

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_an_internal_topic_is_open_when_its_coordinator_gets_it(tmp_path: Path) -> None:
    async def run(made: World) -> None:
        topic = await ensure(made.broker, "__consumer_offsets")
        assert len(topic.partitions) == 4
        assert all(made.broker.is_online(p) for p in topic.partitions)

    with world(tmp_path) as made:
        asyncio.run(run(made))


def test_logs_that_cannot_be_opened_later_are_offline_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(made: World) -> None:
        made.workers[0].refuse[m.OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no such disk")
        await create_topics(made.broker, [NewTopic("a", 5)])
        await made.broker.log_openings.wait(["a"])
        assert not any(made.broker.is_online(p) for p in made.broker.catalogue.topics["a"].partitions)

    with world(tmp_path) as made:
        asyncio.run(run(made))
    assert "new partitions of a: KAFKA_STORAGE_ERROR: no such disk" in caplog.text
