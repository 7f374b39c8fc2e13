"""AddPartitionsToTxn of topics that a client may not add, and how refused partitions are listed."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.api.in_process import ask
from tests.control.fakes import World, world

REFUSED, UNKNOWN = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        specs = [NewTopic("a", 2), NewTopic("b"), NewTopic(CONSUMER_OFFSETS), NewTopic(TRANSACTION_STATE)]
        asyncio.run(create_topics(one.broker, specs))
        yield one


def add(made: World, *topics: tuple[str, list[int]], version: int = 3) -> list[tuple[str, list[Any]]]:
    request = AddPartitionsToTxnRequest("t", 1, 0, [AddPartitionsToTxnTopic(*each) for each in topics])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ADD_PARTITIONS_TO_TXN, version, request))
    return [
        (
            topic.name,
            [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition],
        )
        for topic in answer.results_by_topic_v3_and_below
    ]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
def test_a_client_adds_no_internal_topic(made: World, name: str, version: int) -> None:
    assert add(made, (name, [0]), version=version) == [(name, [(0, REFUSED)])]
    assert add(made, ("a", [0]), (name, [0]), version=version) == [
        ("a", [(0, NOT_ATTEMPTED)]),
        (name, [(0, REFUSED)]),
    ]


def test_each_refused_partition_is_listed_once(made: World) -> None:
    found = add(made, ("a", [9, 0, 9]), ("absent", [0]), ("b", []), ("a", [0, 1]))
    assert found == [
        ("a", [(9, UNKNOWN), (0, NOT_ATTEMPTED), (1, NOT_ATTEMPTED)]),
        ("absent", [(0, UNKNOWN)]),
    ]


def verified(made: World, *topics: tuple[str, list[int]]) -> list[tuple[str, int, int]]:
    """What a verification answers; topic a has partition 0 in the transaction, unless b is
    named."""

    def verify(transactional_id: str, producer_id: int, epoch: int, partitions: Any) -> Any:
        if ("b", 0) in partitions:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return {each: 0 if each == ("a", 0) else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    services: Any = made.services
    services.coordinate(None, SimpleNamespace(verify_partitions=verify))
    transaction = AddPartitionsToTxnTransaction(
        "t", 1, 0, True, [AddPartitionsToTxnTopic(*each) for each in topics]
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ADD_PARTITIONS_TO_TXN, 5, request))
    (found,) = answer.results_by_transaction
    return [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in found.topic_results
        for each in topic.results_by_partition
    ]


def test_a_verification_lists_each_partition_once(made: World) -> None:
    assert verified(made, ("a", [0, 1, 0]), ("a", [1])) == [("a", 0, 0), ("a", 1, 120)]
    fenced = ErrorCode.PRODUCER_FENCED
    assert verified(made, ("a", [0, 0]), ("b", [0])) == [("a", 0, fenced), ("b", 0, fenced)]
