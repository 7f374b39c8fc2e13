"""TxnOffsetCommit before there is a coordinator of transactions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.api.in_process import ask
from tests.control.coordinators_scene import Scene
from tests.control.fakes import world


@pytest.mark.parametrize("version", [2, 4, 5])
def test_without_the_topic_of_transactions_no_coordinator_is_available(tmp_path: Path, version: int) -> None:
    async def body(scene: Scene) -> None:
        await scene.groups.ready()
        await create_topics(scene.broker, [NewTopic("a")])
        topics = [TxnOffsetCommitRequestTopic("a", [TxnOffsetCommitRequestPartition(0, 1)])]
        request = TxnOffsetCommitRequest("t", "g", 1, 0, topics=topics)
        answer: Any = await ask(scene.broker, ApiKey.TXN_OFFSET_COMMIT, version, request)
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with world(tmp_path) as made:

        async def run() -> None:
            scene = Scene(made)
            try:
                await body(scene)
            finally:
                scene.groups.close()
                scene.transactions.close()

        asyncio.run(run())
