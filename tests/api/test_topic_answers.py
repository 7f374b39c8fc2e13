"""Answers about topics follow every change: of topics, replicas, log dirs."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
)
from tests.api.in_process import ask
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 2), NewTopic("b", 3)]))
        yield one


def metadata(made: World, *names: str, operations: bool = False) -> list[Any]:
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], False, False, operations)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.METADATA, 12, request))
    return list(answer.topics)


def pages(made: World, limit: int, *names: str) -> list[int]:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request))
    return [len(topic.partitions) for topic in answer.topics]


def test_answers_follow_what_changes(made: World) -> None:
    assert [len(each.partitions) for each in metadata(made, "a", "b")] == [2, 3]
    assert [len(each.partitions) for each in metadata(made, "b")] == [3]
    assert metadata(made, "a")[0].topic_authorized_operations < 0
    assert metadata(made, "a", operations=True)[0].topic_authorized_operations > 0
    epoch = metadata(made, "a")[0].partitions[0].leader_epoch
    made.reboot()
    assert metadata(made, "a", "b")[0].partitions[0].leader_epoch == epoch + 1
    asyncio.run(create_topics(made.broker, [NewTopic("c", 1)]))
    assert [each.name for each in metadata(made, "c", "a")] == ["c", "a"]


def test_a_page_of_a_topic_is_not_the_entire_topic(made: World) -> None:
    assert pages(made, 100, "a", "b") == [2, 3]
    assert pages(made, 3, "a", "b") == [2, 1]
    assert pages(made, 100, "a", "b") == [2, 3]


def test_partitions_of_a_failed_log_dir_are_reported_offline_at_once(made: World) -> None:
    metadata(made, "a")
    part = made.broker.catalogue.topics["a"].partitions[0]
    made.broker.dir_errors.fail(part.log_dir, errno.EIO)
    made.shared.slots[part.slot, Slot.STATE] = SlotState.OFFLINE
    assert metadata(made, "a", "b")[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_an_error_is_not_kept(made: World) -> None:
    part = made.broker.catalogue.topics["a"].partitions[0]
    made.shared.slots[part.slot, Slot.STATE] = SlotState.OFFLINE
    assert metadata(made, "a", "b")[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    made.shared.slots[part.slot, Slot.STATE] = SlotState.ONLINE
    assert metadata(made, "b", "a")[1].partitions[0].error_code == 0
