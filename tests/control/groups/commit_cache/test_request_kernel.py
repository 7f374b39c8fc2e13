"""The commit cache answers heartbeats as the machine would, puts sessions off, and knows when it
may not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.rebalance import heartbeat_timer
from kbroker.control.groups.timer_names import member_timer
from kbroker.control.metadata.config_resource import GROUP as GROUP_CONFIG
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from tests.control.groups.commit_scene import (
    GENERATION,
    GROUP,
    MEMBER,
    Scene,
    play,
)


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_passes_from_the_second_on_and_puts_off_the_session(tmp_path: Path, version: int) -> None:
    async def test(scene: Scene) -> None:
        request = HeartbeatRequest(GROUP, GENERATION, MEMBER)
        frames = [encode_request(ApiKey.HEARTBEAT, version, number, "c", request) for number in (3, 4, 5)]
        first = await scene.send(frames[0])
        assert scene.left == 1
        timer = scene.runtime._wheel._timers[heartbeat_timer(GROUP, MEMBER)]
        timer.due_ms -= 50_000
        due_ms = timer.due_ms
        (second, third) = await scene.send(*frames[1:])
        assert scene.left == 1, "passed"
        assert first[0] is not None
        assert second == first[0].replace(b"\0\0\0\3", b"\0\0\0\4")
        assert third == first[0].replace(b"\0\0\0\3", b"\0\0\0\5")
        scene.runtime._wheel.advance()
        assert timer.due_ms >= due_ms + 50_000

    play(tmp_path, test)


def test_heartbeats_of_another_generation_and_after_another_operation_are_the_machines(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        async def beat(generation: int) -> None:
            request = HeartbeatRequest(GROUP, generation, MEMBER)
            await scene.send(encode_request(ApiKey.HEARTBEAT, 4, 3, "c", request))

        await beat(GENERATION)
        for _ in range(2):
            await beat(GENERATION + 1)
        assert scene.left == 3
        await scene.runtime.run(GROUP, lambda _: Outcome())
        await beat(GENERATION)
        assert scene.left == 4
        await beat(GENERATION)
        assert scene.left == 4

    play(tmp_path, test)


class Consumers:
    """Members of the consumer group "new", each a client of its own by its `peer`."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def beat(
        self, member: str, epoch: int, client: str = "c", **more: Any
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest("new", member * 22, epoch, **more)
        (answer,) = await self.scene.send(
            encode_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 7, client, request)
        )
        assert answer is not None
        return decode(ConsumerGroupHeartbeatResponse, 1, answer, 9)[0]

    async def settle(self, member: str, **more: Any) -> int:
        """Join and go on until nothing changes: the epoch."""
        epoch, spec = 0, {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["a"], **more}
        answer = await self.beat(member, 0, **spec, topic_partitions=[])
        while answer.assignment is not None or answer.member_epoch != epoch:
            owned = answer.assignment.topic_partitions if answer.assignment else []
            own = [RequestTopicPartitions(each.topic_id, each.partitions) for each in owned]
            epoch = answer.member_epoch
            answer = await self.beat(member, epoch, topic_partitions=own)
        return epoch

    async def passes(self, member: str, epoch: int, client: str = "c") -> bool:
        before, written = self.scene.left, len(self.scene.log.batches)
        answer = await self.beat(member, epoch, client)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, member * 22, epoch)
        assert answer.heartbeat_interval_ms == 5000
        assert answer.assignment is None
        await asyncio.sleep(0)
        passed = self.scene.left == before
        assert not passed or len(self.scene.log.batches) == written, "nothing is written for it"
        return passed


def test_a_heartbeat_of_a_settled_consumer_group_passes_and_puts_off_the_session(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        members = Consumers(scene)
        epoch = await members.settle("m")
        assert not await members.passes("m", epoch)
        timer = scene.runtime._wheel._timers[member_timer("session-timeout", "new", "m" * 22)]
        timer.due_ms -= 30_000
        due_ms = timer.due_ms
        assert await members.passes("m", epoch)
        scene.runtime._wheel.advance()
        assert timer.due_ms >= due_ms + 30_000

    play(tmp_path, test)


def test_it_is_checked_again_after_any_change_of_the_group_its_topics_and_its_settings(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        members = Consumers(scene)

        async def passes_again(epoch: int) -> bool:
            looked_at = not await members.passes("m", epoch)
            return looked_at and await members.passes("m", epoch)

        epoch = await members.settle("m")
        assert await passes_again(epoch)
        await create_topics(scene.broker, [NewTopic("c", 1, 1)])
        assert await passes_again(epoch)
        scene.service.config_changed(GROUP_CONFIG, "new")
        assert await passes_again(epoch)
        scene.broker.features_epoch += 1
        assert await passes_again(epoch)
        assert (await members.beat("m", epoch - 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert await members.passes("m", epoch), "a refusal changes nothing"
        await scene.runtime.run("new", lambda _: Outcome())
        assert await passes_again(epoch)
        await members.beat(
            "n", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["a"], topic_partitions=[]
        )
        requested = scene.left
        while (
            await members.beat("m", epoch)
        ).assignment is None:  # until the new member's share is asked back
            requested += 1
            assert scene.left == requested, "nothing passes while an assignment is due"
            await asyncio.sleep(0.05)

    play(tmp_path, test)


def test_another_client_with_a_members_name_is_checked(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        members = Consumers(scene)
        epoch = await members.settle("m")
        await members.passes("m", epoch)
        assert not await members.passes("m", epoch, "other")
        shown = scene.shard.describe_consumer_group("new").members[0]
        assert shown.client_id == "other"

    play(tmp_path, test)


def test_heartbeats_of_a_group_with_an_expression_are_the_machines(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        members = Consumers(scene)
        epoch = await members.settle("m", subscribed_topic_regex="a.*")
        for _ in range(3):
            assert not await members.passes("m", epoch)

    play(tmp_path, test)
