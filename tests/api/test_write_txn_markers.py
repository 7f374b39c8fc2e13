"""WriteTxnMarkers: each partition gets its marker; those that no log can hold are refused before
anything is written."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.api.in_process import ask
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 1)]))
        yield one


def codes(made: World, *markers: WritableTxnMarker) -> list[int]:
    answer: Any = asyncio.run(
        ask(made.broker, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(list(markers)))
    )
    return [part.error_code for one in answer.markers for topic in one.topics for part in topic.partitions]


def marker(producer_id: int, epoch: int, *places: tuple[str, int]) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic(name, [index]) for name, index in places]
    return WritableTxnMarker(producer_id, epoch, False, topics, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-1, -1), (5, -1)])
def test_a_marker_without_a_producer_fails_the_entire_request(
    made: World, producer_id: int, epoch: int
) -> None:
    odd = marker(producer_id, epoch, ("none", 0), ("a", 0))
    assert codes(made, marker(7, 0, ("none", 0)), odd) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1)])
def test_where_there_is_no_log_nothing_is_refused_for_it(made: World, producer_id: int, epoch: int) -> None:
    """Each partition has an error of its own; here that of a coordinator that is not loaded."""
    found = codes(made, marker(producer_id, epoch, ("none", 0), ("a", 1), ("a", -1)))
    assert len(found) == 3
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in found


def listed(answer: Any) -> list[tuple[int, list[tuple[str, list[tuple[int, int]]]]]]:
    return [
        (
            one.producer_id,
            [
                (each.name, [(part.partition_index, part.error_code) for part in each.partitions])
                for each in one.topics
            ],
        )
        for one in answer.markers
    ]


class Writer:
    """Stands for the MarkerWriter: what was to be written, and the refusals of partitions."""

    def __init__(self, refusals: dict[tuple[str, int], ErrorCode]) -> None:
        self.written: list[tuple[Any, ...]] = []
        self._refusals = refusals

    async def write(self, where: tuple[str, int], *order: Any) -> None:
        self.written.append((where, *order))
        if code := self._refusals.get(where):
            raise KafkaError(code)


def test_each_partition_gets_the_marker_that_is_meant_for_it_and_has_its_own_code(made: World) -> None:
    writer = Writer({("b", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER})
    asyncio.run(create_topics(made.broker, [NewTopic("b", 2)]))
    services: Any = made.services
    services.coordinate(None, SimpleNamespace(writer=writer))
    commit = WritableTxnMarker(
        7, 3, True, [WritableTxnMarkerTopic("b", [1, 0]), WritableTxnMarkerTopic("none", [4])], 5, 2
    )
    abort = WritableTxnMarker(8, 4, False, [WritableTxnMarkerTopic("a", [0])], 6, 1)
    request = WriteTxnMarkersRequest([commit, abort])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.WRITE_TXN_MARKERS, 2, request))
    assert sorted(writer.written) == [
        (("a", 0), 8, 4, 6, False, 1),
        (("b", 0), 7, 3, 5, True, 2),
        (("b", 1), 7, 3, 5, True, 2),
    ]
    found = [
        (one.producer_id, topic.name, part.partition_index, part.error_code)
        for one in answer.markers
        for topic in one.topics
        for part in topic.partitions
    ]
    assert found == [
        (7, "b", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (7, "b", 0, ErrorCode.NONE),
        (7, "none", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (8, "a", 0, ErrorCode.NONE),
    ]


def test_markers_of_one_producer_have_one_answer_with_each_partition_once(made: World) -> None:
    class Second(Writer):
        """Refuses all markers but the first one."""

        async def write(self, where: tuple[str, int], *order: Any) -> None:
            self.written.append((where, *order))
            if len(self.written) > 1:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    services: Any = made.services
    services.coordinate(None, SimpleNamespace(writer=Second({})))
    markers = [
        marker(7, 0, ("a", 0), ("none", 0)),
        marker(8, 0, ("none", 2), ("none", 2)),
        marker(7, 0, ("none", 1), ("a", 0)),
        WritableTxnMarker(9, 0, False, [], 0),
        WritableTxnMarker(10, 0, False, [WritableTxnMarkerTopic("a", [])], 0),
    ]
    answer = asyncio.run(ask(made.broker, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers)))
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH
    assert listed(answer) == [
        (7, [("a", [(0, invalid)]), ("none", [(0, unknown), (1, unknown)])]),
        (8, [("none", [(2, unknown)])]),
    ]


def test_a_request_that_fails_as_a_whole_names_each_producers_last_marker(made: World) -> None:
    markers = [
        marker(-1, 0, ("a", 0)),
        marker(-1, 0, ("none", 1), ("none", 1), ("a", 0)),
        WritableTxnMarker(9, 0, False, [], 0),
    ]
    answer = asyncio.run(ask(made.broker, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers)))
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert listed(answer) == [(-1, [("none", [(1, failed)]), ("a", [(0, failed)])]), (9, [])]
