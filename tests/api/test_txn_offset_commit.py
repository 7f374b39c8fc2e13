"""TxnOffsetCommit before there is a coordinator of transactions, and of producers that may not
commit."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.api.in_process import ask
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.coordinators_scene import Scene, play
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


@pytest.mark.parametrize("version", range(6))
def test_a_producer_that_may_not_commit_learns_why_in_the_words_of_its_version(
    tmp_path: Path, version: int
) -> None:
    """Without AddOffsetsToTxn, and with the epoch of its predecessor."""

    async def body(scene: Scene) -> None:
        request = InitProducerIdRequest("x", 60_000)
        first: Any = await answer_of(scene.transaction_service.init_producer_id(request))
        second: Any = await answer_of(scene.transaction_service.init_producer_id(request))
        assert second.producer_epoch == first.producer_epoch + 1
        codes = []
        for given in (first, second):
            topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
            commit = TxnOffsetCommitRequest("x", "g", given.producer_id, given.producer_epoch, topics=topics)
            answer: Any = await ask(scene.broker, ApiKey.TXN_OFFSET_COMMIT, version, commit)
            codes.append(answer.topics[0].partitions[0].error_code)
        allowed = ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE
        assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE if version == 5 else allowed]

    with world(tmp_path) as made:
        play(made, body)
