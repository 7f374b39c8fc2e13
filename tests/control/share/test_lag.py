"""How far a share group is behind: what DescribeShareGroupOffsets says."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api import describe_share_group_offsets
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.service import ShareService
from kbroker.protocol.errors import ErrorCode
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("orders", 1)]))
        yield one


def described(made: World, start: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """(start offset, lag, error code) of an empty partition whose group has this start offset."""

    async def body() -> Any:
        runtime: Any = SimpleNamespace(attach=lambda _: None, every=lambda *_: None)
        groups: Any = SimpleNamespace(
            shard=SimpleNamespace(table=SimpleNamespace(overrides=GroupOverrides()))
        )
        append: Any = None
        shares = ShareService(made.broker, groups, runtime, lambda _: None, append)
        monkeypatch.setattr(shares.partitions, "start_offset", lambda _: start)
        ctx: Any = SimpleNamespace(broker=made.broker, services=SimpleNamespace(shares=shares))
        topic = made.broker.catalogue.topics["orders"]
        return describe_share_group_offsets._describe(ctx, ShareGroup("g"), topic, [0]).partitions[0]

    answer = asyncio.run(body())
    return answer.start_offset, answer.lag, answer.error_code


@pytest.mark.parametrize(("start", "lag"), [(-1, -1), (0, 0), (5, -5), (-5, 5), (-(1 << 63), -(1 << 63))])
def test_the_lag_is_that_of_kafka_also_of_offsets_that_no_record_has(
    made: World, monkeypatch: pytest.MonkeyPatch, start: int, lag: int
) -> None:
    assert described(made, start, monkeypatch) == (start, lag, 0)


def test_an_end_offset_that_cannot_be_read_is_an_error(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made.broker, "is_online", lambda _: False)
    assert described(made, 0, monkeypatch) == (0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert described(made, -1, monkeypatch) == (-1, -1, 0)
