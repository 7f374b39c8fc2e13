"""ShareAcknowledge of partitions without batches."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.share_acknowledge import add_empty
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.service import Fetched
from kbroker.control.share.sessions import TopicPartition
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from tests.control.fakes import world

STRANGE = bytes(range(16))


@pytest.mark.parametrize(
    ("code", "listed"),
    [
        (ErrorCode.INVALID_RECORD_STATE, True),
        (ErrorCode.INVALID_REQUEST, False),
        (None, False),
    ],
)
def test_existing_partitions_are_listed_beside_acknowledged_ones(
    tmp_path: Path, code: ErrorCode | None, listed: bool
) -> None:
    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("t", 2)]))
        topic_id = made.broker.catalogue.topics["t"].topic_id
        parts = [AcknowledgePartition(index) for index in range(3)]
        topics = [AcknowledgeTopic(topic_id, parts), AcknowledgeTopic(STRANGE, parts[:1])]
        done: dict[TopicPartition, Fetched] = {}
        if code is not None:
            done[topic_id, 0] = Fetched(acknowledge_error=KafkaError(code))
        add_empty(made.broker, ShareAcknowledgeRequest("g", "m", 1, topics=topics), done)
    found = {place: each.acknowledge_error and each.acknowledge_error.code for place, each in done.items()}
    errors = {
        (topic_id, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (STRANGE, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }  # fmt: skip
    first = {} if code is None else {(topic_id, 0): code}
    assert found == first | errors | ({(topic_id, 1): None} if listed else {})
