"""The settings of a share group, and the errors and first offsets of its partitions."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.limits import Limits
from kbroker.control.share.partitions import _not_written
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world
from tests.control.share.scene import Scene

Test = Callable[[Scene, World], Coroutine[Any, Any, None]]
Play = Callable[[Test, dict[str, str]], None]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Runs a test with a group of these settings."""
    with world(tmp_path, {"group.share.delivery.count.limit": "7"}) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("orders", 1)]))

        def run(test: Test, settings: dict[str, str]) -> None:
            async def body() -> None:
                await test(Scene(made, settings), made)

            asyncio.run(body())

        yield run


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({"share.isolation.level": "read_uncommitted"}, Limits(delivery_count=7)),
        (
            {
                "share.record.lock.duration.ms": "15000",
                "share.delivery.count.limit": "3",
                "share.partition.max.record.locks": "150",
                "share.renew.acknowledge.enable": "false",
                "errors.deadletterqueue.topic.name": "dlq.team",
                "kbroker.share.retry.backoff.ms": "10",
                "kbroker.share.retry.backoff.max.ms": "20",
            },
            Limits(15_000, 3, 150, True, False, 10, 20),
        ),
    ],
)
def test_the_limits_of_a_group_go_before_those_of_the_broker(
    play: Play, settings: dict[str, str], limits: Limits
) -> None:
    async def test(scene: Scene, _: World) -> None:
        assert scene.partitions.limits("team") == limits
        assert scene.partitions.limits("other") == Limits(delivery_count=7)

    play(test, settings)


@pytest.mark.parametrize(
    ("level", "committed"), [("read_committed", True), ("READ_COMMITTED", True), ("read_uncommitted", False)]
)
def test_a_group_reads_committed_records_if_it_says_so(play: Play, level: str, committed: bool) -> None:
    async def test(scene: Scene, _: World) -> None:
        assert scene.partitions.reads_committed("team") is committed
        assert not scene.partitions.reads_committed("other")

    play(test, {"share.isolation.level": level})


@pytest.mark.parametrize(
    ("settings", "offset"),
    [
        ({"share.auto.offset.reset": "earliest"}, 1),
        ({"share.auto.offset.reset": "latest"}, 4),
        ({"share.auto.offset.reset": "LATEST", "share.isolation.level": "read_committed"}, 3),
        ({"share.auto.offset.reset": "by_duration:PT1S"}, 2),
        ({"share.auto.offset.reset": "by_duration:PT1H"}, 1),
        ({"share.auto.offset.reset": "by_duration:PT0.1S"}, 4),
    ],
)
def test_a_group_begins_where_its_setting_says(
    play: Play, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str], offset: int
) -> None:
    async def test(scene: Scene, made: World) -> None:
        partition = made.broker.catalogue.topics["orders"].partitions[0]
        for timestamp_ms in (1000, 1000, 2000, 2500):
            made.worker.append(partition, (None, b"x", (), timestamp_ms))
        words = made.shared.slots[partition.slot]
        words[Slot.LOG_START], words[Slot.LAST_STABLE] = 1, 3
        monkeypatch.setattr(made.broker, "now_ms", lambda: 2900)
        assert await scene.partitions._first_offset("team", partition) == offset

    play(test, dict(settings))


@pytest.mark.parametrize(("set_to", "begins"), [(-1, 4), (-2, 1), (-(1 << 63), 1), (3, 3)])
def test_a_group_whose_offset_was_set_below_none_begins_at_the_start_of_the_log(
    play: Play, set_to: int, begins: int
) -> None:
    """As in Apache Kafka, where no record has such an offset; -1 is no offset."""

    async def test(scene: Scene, made: World) -> None:
        partition = made.broker.catalogue.topics["orders"].partitions[0]
        for timestamp_ms in range(1000, 1004):
            made.worker.append(partition, (None, b"x", (), timestamp_ms))
        made.shared.slots[partition.slot][Slot.LOG_START] = 1
        await scene.partitions.restart_at(scene.key, set_to)
        assert scene.partitions.start_offset(scene.key) == set_to
        assert (await scene.partitions.open(scene.key)).start_offset == begins

    play(test, {"share.auto.offset.reset": "latest"})


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_state_that_is_not_written_has_kafkas_error(code: ErrorCode, shown: ErrorCode) -> None:
    assert _not_written(KafkaError(code)).code is shown


BACKOFF = {"kbroker.share.retry.backoff.ms": "40", "kbroker.share.retry.backoff.max.ms": "50"}


def test_a_released_record_is_available_again_after_its_pause(play: Play) -> None:
    async def test(scene: Scene, _: World) -> None:
        partition = await scene.taken()
        limits = scene.partitions.limits("team")
        assert (limits.backoff_ms, limits.max_backoff_ms) == (40, 50)
        released_ms = monotonic_ms()
        partition.acknowledge("a", [AcknowledgedBatch(0, 3, [AcknowledgeType.RELEASE])], limits, released_ms)
        await scene.partitions.settle(scene.key, partition)
        following = partition.next_offset()
        assert following == 10 or monotonic_ms() >= released_ms + 40
        while not scene.freed:
            await asyncio.sleep(0.005)
        assert monotonic_ms() >= released_ms + 40
        assert partition.next_offset() == 0

    play(test, BACKOFF)


def test_the_pause_begins_again_when_the_state_is_loaded(play: Play) -> None:
    async def test(scene: Scene, _: World) -> None:
        partition = await scene.taken()
        limits = scene.partitions.limits("team")
        partition.acknowledge("a", [AcknowledgedBatch(0, 3, [AcknowledgeType.RELEASE])], limits, 0)
        await scene.partitions.settle(scene.key, partition)
        scene.partitions.forget(scene.key)
        loaded_ms = monotonic_ms()
        again = await scene.partitions.open(scene.key)
        following = again.next_offset()
        assert following == 4 or monotonic_ms() >= loaded_ms + 40
        while not scene.freed:
            await asyncio.sleep(0.005)
        assert monotonic_ms() >= loaded_ms + 40
        assert again.next_offset() == 0

    play(test, BACKOFF)


def test_without_the_setting_a_released_record_is_available_at_once(play: Play) -> None:
    async def test(scene: Scene, _: World) -> None:
        partition = await scene.taken()
        assert partition.release("a", scene.partitions.limits("team"), monotonic_ms())
        assert partition.next_offset() == 0
        assert partition.next_deadline_ms() is None

    play(test, {})
