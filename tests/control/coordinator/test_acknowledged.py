"""Waiting for records that may be lost: until they cannot be, or the log has changed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.coordinator.acknowledged import acknowledged, is_acknowledged
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata import config_resource
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.coordinator.runtime_scene import TOPIC, Log, Machine, run
from tests.control.fakes import World


def appended(made: World) -> Partition:
    """A partition with two records, the second of which is not acknowledged."""
    partition = made.broker.catalogue.topics[TOPIC].partitions[1]
    made.worker.append(partition, (b"k", b"1", (), 0), (b"k", b"2", (), 0))
    made.shared.slots[partition.slot, Slot.HIGH_WATERMARK] = 1
    return partition


def test_it_ends_when_the_high_watermark_has_passed_what_was_in_the_log(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = appended(made)
        assert not is_acknowledged(made.broker, partition)
        waiting = asyncio.ensure_future(acknowledged(made.broker, partition))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        words = made.shared.slots[partition.slot]
        words[Slot.LOG_END], words[Slot.HIGH_WATERMARK] = 5, 2
        await waiting
        assert not is_acknowledged(made.broker, partition)
        words[Slot.HIGH_WATERMARK] = 5
        assert is_acknowledged(made.broker, partition)
        await acknowledged(made.broker, partition)

    run(tmp_path, test)


def test_with_a_sync_for_each_record_it_waits_for_the_disk(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        words = made.shared.slots[appended(made).slot]
        words[Slot.HIGH_WATERMARK], words[Slot.DURABLE] = 2, 1
        partition = made.broker.catalogue.topics[TOPIC].partitions[1]
        assert is_acknowledged(made.broker, partition)
        made.broker.overrides[config_resource.TOPIC, TOPIC] = {"flush.messages": "1"}
        made.broker.settings_changed(topics=[TOPIC])
        assert not is_acknowledged(made.broker, partition)
        words[Slot.DURABLE] = 2
        assert is_acknowledged(made.broker, partition)

    run(tmp_path, test)


def closes(made: World, partition: Partition) -> None:
    made.shared.slots[partition.slot, Slot.STATE] = SlotState.OFFLINE


def loses_records(made: World, partition: Partition) -> None:
    made.shared.slots[partition.slot, Slot.LOG_END] = 1


def leads_elsewhere(made: World, partition: Partition) -> None:
    partition.leader = Replica(TOPIC, 1, "/d", 200, 7)
    made.shared.slots[200, Slot.STATE] = SlotState.ONLINE


@pytest.mark.parametrize("change", [closes, loses_records, leads_elsewhere])
def test_a_log_that_changes_meanwhile_is_an_error(
    tmp_path: Path, change: Callable[[World, Partition], None]
) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        partition = appended(made)
        waiting = asyncio.ensure_future(acknowledged(made.broker, partition))
        await asyncio.sleep(0)
        change(made, partition)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, test)


def test_a_deleted_partition_is_an_error(tmp_path: Path) -> None:
    async def test(runtime: Runtime, machine: Machine, log: Log, made: World) -> None:
        waiting = asyncio.ensure_future(acknowledged(made.broker, appended(made)))
        await asyncio.sleep(0)
        await delete_topics(made.broker, lambda: [made.broker.catalogue.topics[TOPIC]])
        with pytest.raises(KafkaError):
            await waiting

    run(tmp_path, test)
