"""DescribeShareGroupOffsets, DeleteShareGroupOffsets: groups that are no share groups."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbroker.api import describe_share_group_offsets
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.api.in_process import ask
from tests.control.fakes import world


def test_a_group_of_another_type_has_no_offsets_as_in_kafka(tmp_path: Path) -> None:
    shard = SimpleNamespace(table=SimpleNamespace(groups={"g": ClassicGroup("g", 0)}))
    groups = SimpleNamespace(read=lambda _: shard)
    with world(tmp_path) as made:
        ctx: Any = SimpleNamespace(broker=made.broker, services=SimpleNamespace(groups=groups))
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
        answer: Any = describe_share_group_offsets.handle(ctx, request)
    assert [(each.group_id, each.error_code, each.topics) for each in answer.groups] == [("g", 0, [])]


def test_offsets_of_a_group_without_a_name_are_not_deleted(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        request = DeleteShareGroupOffsetsRequest("")
        answer = asyncio.run(ask(made.broker, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, request))
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
