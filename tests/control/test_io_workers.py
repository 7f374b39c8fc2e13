"""A starting IO worker opens internal logs first, and serves before the others are open."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.control import io_workers
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.io_workers import IoWorkers
from kbroker.control.late_openings import open_late
from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc import messages as m
from kbroker.ipc.link import LinkClosed
from kbroker.log import files
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FakeWorker, World, world

INTERNAL = "__consumer_offsets"


class FakeAppender:
    def __init__(self) -> None:
        self.taken = asyncio.Event()
        self.taken.set()

    def worker_restarted(self, worker: int) -> None:
        pass

    async def taken_over(self, worker: int) -> None:
        await self.taken.wait()


class StartingWorker(FakeWorker):
    """Opens logs that are not internal when `go` is set; dies instead when `dead` is."""

    def __init__(self, made: World) -> None:
        super().__init__(made.shared)
        self.go = asyncio.Event()
        self.dead = False

    def call(self, body: Any) -> Awaitable[Any]:
        if not isinstance(body, m.OpenPartition) or body.topic == INTERNAL:
            return super().call(body)

        async def later() -> Any:
            await self.go.wait()
            if self.dead:
                raise LinkClosed
            return await super(StartingWorker, self).call(body)

        return later()

    @property
    def names(self) -> list[str]:
        return [call.topic for call in self.calls if isinstance(call, m.OpenPartition)]


class Scene:
    """Two topics that a previous run left, and control's part of a start."""

    def __init__(self, made: World) -> None:
        made.broker.links = type(made.broker.links)()
        self.broker = made.broker
        self.back: list[int] = []
        self.workers = IoWorkers(made.broker, made.services.moves, FakeAppender(), 1, self._back)

    async def _back(self, worker: int) -> None:
        self.back.append(worker)

    def greet(self, worker: StartingWorker) -> "asyncio.Task[None]":
        hello = m.Hello("io", 0, 0)
        return asyncio.get_running_loop().create_task(self.workers.greet(worker, hello))


def left_by_a_previous_run(made: World) -> Scene:
    asyncio.run(create_topics(made.broker, [NewTopic("a", 3), NewTopic(INTERNAL, 2)]))
    return Scene(made)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_internal_logs_are_open_before_others_are_requested(tmp_path: Path) -> None:
    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        greeting = scene.greet(worker)
        await turns()
        assert worker.names == [INTERNAL] * 2
        assert scene.workers.internal_open.is_set()
        assert not scene.workers.all_open.is_set()
        assert scene.broker.links.worker(0) is worker
        waiting = asyncio.ensure_future(scene.broker.log_openings.wait(["a"]))
        await turns()
        assert not waiting.done()
        await scene.broker.log_openings.wait([INTERNAL])
        worker.go.set()
        await asyncio.gather(greeting, waiting)
        assert worker.names == [INTERNAL] * 2 + ["a"] * 3
        assert scene.workers.all_open.is_set()
        assert not scene.back

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_successor_takes_calls_when_all_its_logs_are_open(tmp_path: Path) -> None:
    async def run(made: World, scene: Scene) -> None:
        first = StartingWorker(made)
        first.go.set()
        await scene.greet(first)
        scene.broker.links.lost(first)
        second = StartingWorker(made)
        greeting = scene.greet(second)
        await turns()
        assert second.names == [INTERNAL] * 2
        assert scene.broker.links.worker(0) is None
        second.go.set()
        await greeting
        assert scene.broker.links.worker(0) is second
        assert scene.back == [0]

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_changes_wait_no_longer_for_a_worker_that_died(tmp_path: Path) -> None:
    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        greeting = scene.greet(worker)
        await turns()
        worker.dead = True
        worker.go.set()
        await greeting
        await asyncio.wait_for(scene.broker.log_openings.wait(["a"]), 8)  # less than OPEN_S
        assert not scene.workers.all_open.is_set()

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_topic_that_is_deleted_meanwhile_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker starts while the deletion is being stored. It opened logs after they had been
    closed, and their folders stayed."""
    monkeypatch.setattr(io_workers, "OPENS_AT_ONCE", 1)

    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        topic, in_store = scene.broker.catalogue.topics["a"], scene.broker.in_store
        greetings: list[asyncio.Task[None]] = []

        async def greeting_meanwhile(step: Any) -> Any:
            if not greetings:
                greetings.append(scene.greet(worker))
                await turns()
            return await in_store(step)

        vars(scene.broker)["in_store"] = greeting_meanwhile
        assert await delete_topics(scene.broker, lambda: [topic]) == [None]
        assert worker.names == [INTERNAL] * 2
        worker.go.set()
        await greetings[0]
        assert worker.names == [INTERNAL] * 2 + ["a"], "the call that was on its way"
        assert scene.workers.all_open.is_set()

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_worker_that_died_after_its_last_reply_does_not_replace_its_successor(tmp_path: Path) -> None:
    """The end of an interrupted deletion was still being stored. The successor took no call any
    more: it was no topic's worker until it was restarted."""

    async def run(made: World, scene: Scene) -> None:
        in_store, stored = scene.broker.in_store, asyncio.Event()

        async def slow(step: Any) -> Any:
            await stored.wait()
            return await in_store(step)

        vars(scene.broker)["in_store"] = slow
        first, second = StartingWorker(made), StartingWorker(made)
        greeting = scene.greet(first)
        await until(lambda: not scene.broker.orphans)
        first.closed = True
        await scene.greet(second)
        assert scene.broker.links.worker(0) is second
        stored.set()
        await greeting
        assert scene.broker.links.worker(0) is second

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)

    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        gone = [
            Deletion(made.broker.catalogue.topics["a"].topic_id, one)
            for one in made.broker.catalogue.replicas()
        ]
        change = Change(deleted_topics=["a"], deletions=gone)
        asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
        made.broker.close()
        made.start()
        assert made.broker.orphans
        asyncio.run(run(made, Scene(made)))


def test_internal_logs_are_opened_before_logs_of_deleted_topics_are_closed(tmp_path: Path) -> None:
    """They may be thousands, and the coordinators of all clients waited for them."""

    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        worker.go.set()
        await scene.greet(worker)
        order = [call for call in worker.calls if isinstance(call, m.OpenPartition | m.ClosePartition)]
        assert [getattr(call, "topic", "closed") for call in order] == [INTERNAL] * 2 + ["closed"] * 3 + ["b"]

    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 3), NewTopic("b"), NewTopic(INTERNAL, 2)]))
        topic = made.broker.catalogue.topics["a"]
        gone = [Deletion(topic.topic_id, r) for p in topic.partitions for r in p.replicas]
        change = Change(deleted_topics=["a"], deletions=gone)
        asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
        made.broker.close()
        made.start()
        asyncio.run(run(made, Scene(made)))


def test_the_log_dirs_of_logs_that_cannot_be_opened_are_not_checked(tmp_path: Path) -> None:
    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        worker.go.set()
        worker.refuse[m.OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        await scene.greet(worker)
        assert scene.workers.all_open.is_set()
        placed = {files.log_dir_of(each.folder) for each in scene.broker.catalogue.partitions()}
        assert scene.workers.unchecked == placed

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_log_that_finds_no_room_at_a_start_is_opened_when_there_is(tmp_path: Path) -> None:
    """It was offline until the next start of the broker."""

    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        worker.go.set()
        worker.refuse[m.OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        await scene.greet(worker)
        worker.opened.clear()
        del worker.refuse[m.OpenPartition]
        assert await open_late(scene.broker) == 5
        assert set(worker.opened) == {each.slot for each in scene.broker.catalogue.partitions()}

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_batches_of_a_predecessor_are_settled_and_settings_are_sent_before_a_log_is_opened(
    tmp_path: Path,
) -> None:
    """Until then the successor refuses every entry without reading it."""

    async def run(made: World, scene: Scene) -> None:
        worker, restarted = StartingWorker(made), list[tuple[int, int]]()
        worker.go.set()
        appender: Any = scene.workers._appender
        appender.worker_restarted = lambda index: restarted.append((index, len(worker.calls)))
        settings = m.Settings({"log.retention.ms": "5"})
        vars(made.broker)["dynamic_settings"] = lambda: settings.values
        version = made.broker.version
        await scene.greet(worker)
        assert restarted == [(0, 0)]
        assert worker.calls[0] == settings
        assert [type(call) for call in worker.calls].count(m.Settings) == 1
        assert made.broker.version > version, "logs that could not be opened are offline now"

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_worker_opens_its_logs_when_they_have_what_a_predecessor_of_control_appended(
    tmp_path: Path,
) -> None:
    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        worker.go.set()
        appender: Any = scene.workers._appender
        appender.taken.clear()
        greeting = scene.greet(worker)
        await turns()
        assert worker.calls == []
        appender.taken.set()
        await greeting
        assert scene.workers.all_open.is_set()

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_line_names_the_workers_that_coordinators_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(io_workers, "LATE_S", 0.01)

    async def run(made: World, scene: Scene) -> None:
        await scene.workers.internal_logs()
        assert "coordinators wait for the internal logs of io 0" in caplog.text
        worker = StartingWorker(made)
        worker.go.set()
        await scene.greet(worker)
        caplog.clear()
        await scene.workers.internal_logs()
        assert "coordinators wait" not in caplog.text

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_worker_has_the_settings_that_change_while_it_opens_its_logs(tmp_path: Path) -> None:
    """A change waits for half a minute for a successor. One that has found control again may have
    settings that were reset as the former control died."""

    async def run(made: World, scene: Scene) -> None:
        settings = dict[str, str]()
        vars(made.broker)["dynamic_settings"] = lambda: dict(settings)
        worker = StartingWorker(made)
        greeting = scene.greet(worker)
        await turns()
        assert worker.calls[0] == m.Settings({})
        settings["producer.id.expiration.ms"] = "5"
        worker.go.set()
        await greeting
        assert worker.calls[-1] == m.Settings(settings)
        assert [type(call) for call in worker.calls].count(m.Settings) == 2

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))


def test_a_worker_has_the_config_of_an_internal_topic_that_changes_while_it_opens_its_logs(
    tmp_path: Path,
) -> None:
    """The change waits for half a minute for a successor, whose calls may be older."""

    async def run(made: World, scene: Scene) -> None:
        worker = StartingWorker(made)
        greeting = scene.greet(worker)
        await turns()
        made.broker.overrides[TOPIC, INTERNAL] = {"retention.ms": "12345"}
        made.broker.settings_changed(topics=[INTERNAL])
        worker.go.set()
        await greeting
        config = made.broker.topic_config(INTERNAL)
        assert config.retention_ms == 12345
        found = [call for call in worker.calls if isinstance(call, m.ConfigurePartition)]
        partitions = made.broker.catalogue.topics[INTERNAL].partitions
        assert found == [m.ConfigurePartition(each.slot, config) for each in partitions]

    with world(tmp_path) as made:
        asyncio.run(run(made, left_by_a_previous_run(made)))
