"""Producers that are older than an error code get the one that they know."""

from collections.abc import Callable
from types import ModuleType

import pytest

from kbroker.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Refuses = Callable[[ErrorCode, int], int]


def of_request(module: ModuleType, request: object) -> Refuses:
    """The code of the answer to a request that failed as a whole."""

    def refuse(code: ErrorCode, version: int) -> int:
        found: int = module.refuse(request, KafkaError(code), version).error_code
        return found

    return refuse


def added_partition(code: ErrorCode, version: int) -> int:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=[AddPartitionsToTxnTopic("a", [0])]
    )
    answer = add_partitions_to_txn.refuse(request, KafkaError(code), version)
    if version >= add_partitions_to_txn.BATCHED_FROM:
        return answer.error_code
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def committed_offset(code: ErrorCode, version: int) -> int:
    topics = [TxnOffsetCommitRequestTopic("a", [TxnOffsetCommitRequestPartition(0, 1)])]
    request = TxnOffsetCommitRequest("t", "g", 1, 0, topics=topics)
    return txn_offset_commit.refuse(request, KafkaError(code), version).topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    ("refuse", "since"),
    [
        pytest.param(of_request(init_producer_id, InitProducerIdRequest()), 4, id="InitProducerId"),
        pytest.param(of_request(end_txn, EndTxnRequest()), 2, id="EndTxn"),
        pytest.param(of_request(add_offsets_to_txn, AddOffsetsToTxnRequest()), 2, id="AddOffsetsToTxn"),
        pytest.param(added_partition, 2, id="AddPartitionsToTxn"),
    ],
)
def test_a_fenced_producer_of_an_older_version_has_an_old_epoch(refuse: Refuses, since: int) -> None:
    for version in range(6):
        code = ErrorCode.PRODUCER_FENCED if version >= since else ErrorCode.INVALID_PRODUCER_EPOCH
        assert refuse(ErrorCode.PRODUCER_FENCED, version) == code
        assert refuse(ErrorCode.INVALID_TXN_STATE, version) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", range(6))
def test_clients_before_2_0_wait_for_a_coordinator_that_loads(version: int) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed_offset(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version) == code
