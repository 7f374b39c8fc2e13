"""The group coordinator at work."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.offset_expiration import steps
from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.control.groups.service import FEW_OFFSETS
from kbroker.control.groups.share_group.member import SharedTopic
from kbroker.control.groups.share_group.records import shared_partitions
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.metadata.config_resource import GROUP as GROUP_RESOURCE
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.control.fakes import world
from tests.control.groups.commit_scene import GROUP, Scene, play


def test_a_groups_own_setting_outside_of_the_brokers_bounds_is_cut(tmp_path: Path) -> None:
    """Also one that was stored before the bounds became narrower."""
    name = "consumer.session.timeout.ms"

    async def test() -> None:
        with world(tmp_path, {"group.consumer.max.session.timeout.ms": "50000"}) as made:
            made.broker.overrides[GROUP_RESOURCE, GROUP] = {name: "59000"}
            scene = Scene(made)
            assert scene.shard.table.overrides.number(GROUP, name, 45_000) == 50_000
            made.broker.overrides[GROUP_RESOURCE, GROUP] = {name: "48000"}
            scene.service.config_changed(GROUP_RESOURCE, GROUP)
            assert scene.shard.table.overrides.number(GROUP, name, 45_000) == 48_000
            scene.runtime.close()

    asyncio.run(test())


def test_offsets_of_which_none_is_expired_are_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many operations may be needed for a group with very many; most sweeps need none."""
    group_id = "g" * 1000

    async def test() -> None:
        with world(tmp_path) as made:
            scene = Scene(made)
            await scene.runtime.ready()
            for partition in range(FEW_OFFSETS + 1):
                offset = CommittedOffset(1, -1, "", made.broker.now_ms())
                record = offset_record(group_id, "t", partition, offset)
                scene.shard.replay(0, record.key, record.value, 0)
            expire_offsets = scene.shard.expire_offsets
            checks = 0

            def expire(each: str, now_ms: int) -> Outcome:
                nonlocal checks
                checks += 1
                return expire_offsets(each, now_ms)

            monkeypatch.setattr(scene.shard, "expire_offsets", expire)
            assert steps(group_id, FEW_OFFSETS + 1) > 10
            for swept in (1, 2):
                scene.service._expire_offsets()
                await scene.service._sweeps._background.wait(60)
                assert checks == swept
            scene.runtime.close()

    asyncio.run(test())


def test_share_groups_forget_a_deleted_topic(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        topic = scene.broker.catalogue.topics["a"]
        shared = {topic.topic_id: SharedTopic("a", frozenset({0, 1, 2}))}
        record = shared_partitions("team", {}, shared, {})
        scene.shard.replay(scene.runtime.partition_for("team"), record.key, record.value, 0)
        group = scene.shard.table.groups["team"]
        assert isinstance(group, ShareGroup)
        assert group.shared == shared
        scene.service.topic_deleted(topic)
        await scene.service._sweeps._background.wait(30)
        assert group.shared == {}

    play(tmp_path, test)


def test_an_offset_that_a_power_cut_takes_back_is_not_returned_after_a_restart(tmp_path: Path) -> None:
    """Control died while the sync of a commit hung: its successor returned the offset."""
    request = OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics("a", partition_indexes=[0])])

    def fetched(scene: Scene) -> list[int] | ErrorCode:
        try:
            found = scene.service.read(GROUP).fetch_offsets(request, False)
        except KafkaError as error:
            return error.code
        return [part.committed_offset for topic in found.topics for part in topic.partitions]

    async def test() -> None:
        with world(tmp_path) as made:
            first = Scene(made)
            await first.begin()
            partitions = made.broker.catalogue.topics[CONSUMER_OFFSETS].partitions
            partition = partitions[first.runtime.partition_for(GROUP)]
            record = offset_record(GROUP, "a", 0, CommittedOffset(7, -1, "", made.broker.now_ms()))
            made.worker.append(partition, (record.key, record.value, (), 1000))
            made.shared.slots[partition.slot, Slot.HIGH_WATERMARK] = 0
            scene = Scene(made)
            await scene.runtime.ready()
            assert fetched(scene) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            made.shared.slots[partition.slot, Slot.HIGH_WATERMARK] = 1
            while fetched(scene) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                await asyncio.sleep(0.001)
            assert fetched(scene) == [7]
            scene.runtime.close()
            first.runtime.close()

    asyncio.run(asyncio.wait_for(test(), 60))
