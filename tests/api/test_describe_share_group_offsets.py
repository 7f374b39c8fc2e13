"""DescribeShareGroupOffsets, DeleteShareGroupOffsets: groups that are no share groups."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.api import delete_share_group_offsets, describe_share_group_offsets
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.api.in_process import ask
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import world


def test_a_group_of_another_type_has_no_offsets_as_in_kafka(tmp_path: Path) -> None:
    shard = SimpleNamespace(table=SimpleNamespace(groups={"g": ClassicGroup("g", 0)}))
    groups = SimpleNamespace(read=lambda _: shard)
    with world(tmp_path) as made:
        ctx: Any = SimpleNamespace(broker=made.broker, services=SimpleNamespace(groups=groups))
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
        answer: Any = describe_share_group_offsets.handle(ctx, request)
    assert [(each.group_id, each.error_code, each.topics) for each in answer.groups] == [("g", 0, [])]


def test_a_group_that_never_shared_a_partition_has_no_offsets_to_delete(tmp_path: Path) -> None:
    """As in Kafka (GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion), not even of
    topics that do not exist."""
    group = ShareGroup("g")
    table = SimpleNamespace(of_type=lambda *_: group, closed_to_members=lambda _: nullcontext())

    async def run(*_: object) -> None:
        """Nothing is unshared."""

    groups = SimpleNamespace(read=lambda _: SimpleNamespace(table=table), run=run)
    with world(tmp_path) as made:
        services = SimpleNamespace(groups=groups, shares=None)
        ctx: Any = SimpleNamespace(broker=made.broker, services=services)
        request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("nope")])

        async def delete() -> Any:
            return await answer_of(delete_share_group_offsets.handle(ctx, request))

        answers = []
        for _ in range(2):
            answer = asyncio.run(delete())
            answers.append([(each.topic_name, each.error_code) for each in answer.responses])
            group.put_states({}, {}, {})
    assert answers == [[], [("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]]


def test_offsets_of_a_group_without_a_name_are_not_deleted(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        request = DeleteShareGroupOffsetsRequest("")
        answer = asyncio.run(ask(made.broker, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, request))
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
