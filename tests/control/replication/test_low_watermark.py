"""Records are deleted when no replica that is there would bring them back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.api.in_process import ask
from tests.control.fakes import World


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(3))
    one = World(tmp_path, {"kbroker.replica.sites": dirs}, workers=3, dirs=3)
    asyncio.run(create_topics(one.broker, [NewTopic("a", 1, 3)]))
    one.workers[0].append(only(one), *[(None, b"v", (), 1)] * 5)
    yield one
    one.broker.close()


def only(made: World) -> Partition:
    return made.broker.catalogue.topics["a"].partitions[0]


def copied(made: World, number: int, log_start: int) -> None:
    made.shared.slots[only(made).replicas[number].slot, Slot.LOG_START] = log_start


async def delete(made: World, offset: int, timeout_ms: int = 60_000) -> tuple[int, int]:
    requested = DeleteRecordsTopic("a", [DeleteRecordsPartition(0, offset)])
    answer: Any = await ask(
        made.broker, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([requested], timeout_ms)
    )
    (found,) = answer.topics[0].partitions
    return found.error_code, found.low_watermark


def test_every_replica_is_waited_for(made: World) -> None:
    async def script() -> tuple[int, int]:
        deleting = asyncio.ensure_future(delete(made, 3))
        for number, log_start in ((1, 3), (2, 2)):
            copied(made, number, log_start)
            await asyncio.sleep(0.05)
            assert not deleting.done()
        copied(made, 2, 4)
        return await deleting

    assert asyncio.run(script()) == (0, 3)


def test_a_replica_that_is_away_is_not_waited_for(made: World) -> None:
    copied(made, 1, 3)
    made.broker.links.lost(made.workers[2])
    assert asyncio.run(delete(made, 3)) == (0, 3)


def test_one_that_lags_is_waited_for_as_long_as_the_client_says(made: World) -> None:
    assert asyncio.run(delete(made, 3, timeout_ms=20)) == (ErrorCode.REQUEST_TIMED_OUT, -1)


@pytest.mark.parametrize("what", ["another leader", "deleted"])
def test_a_partition_that_is_led_by_another_one_may_have_them_still(what: str, made: World) -> None:
    async def script() -> tuple[int, int]:
        deleting = asyncio.ensure_future(delete(made, 3))
        await asyncio.sleep(0.05)
        if what == "deleted":
            await delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]])
        else:
            replication = made.services.replication
            replication.elect(only(made), only(made).replicas[1])
            for number in (0, 1, 2):
                copied(made, number, 3)
        return await deleting

    assert asyncio.run(script()) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
