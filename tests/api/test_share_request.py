"""Share requests that are refused as a whole, and the ids that a member may choose."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.alter_share_group_offsets import listed
from kbroker.api.share_request import code_and_text
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kbroker.protocol.messages.share_fetch import ShareFetchRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.api.in_process import ask
from tests.control.fakes import world

LONGEST = "0b7ff9e6-cf2f-4c3c-b1b0-6a4d4e7ad2a1"
NEXT_ERROR = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""Of a valid request: this broker has no share groups yet."""


@pytest.mark.parametrize(
    ("member_id", "code"),
    [
        ("", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
        (LONGEST + "0", ErrorCode.INVALID_REQUEST),
        (LONGEST, NEXT_ERROR),
        ("member-1", NEXT_ERROR),
    ],
)
def test_a_member_chooses_any_short_id(tmp_path: Path, member_id: str | None, code: ErrorCode) -> None:
    with world(tmp_path) as made:
        fetch = ShareFetchRequest("group", member_id, share_session_epoch=5)
        acknowledge = ShareAcknowledgeRequest("group", member_id, share_session_epoch=5)
        for api, request in ((ApiKey.SHARE_FETCH, fetch), (ApiKey.SHARE_ACKNOWLEDGE, acknowledge)):
            assert asyncio.run(ask(made.broker, api, 1, request)).error_code == code


def test_a_heartbeat_without_member_id_is_refused_without_a_text(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        for member_id in ("", LONGEST + "0"):
            request = ShareGroupHeartbeatRequest("group", member_id)
            answer = asyncio.run(ask(made.broker, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request))
            assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, None)


@pytest.mark.parametrize("field", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def test_a_renewal_of_locks_asks_for_no_records(tmp_path: Path, field: str) -> None:
    nothing = dict.fromkeys(("max_bytes", "min_bytes", "max_records", "max_wait_ms"), 0)
    with world(tmp_path) as made:
        for values, code in (
            (nothing, NEXT_ERROR),
            (nothing | {field: 1}, ErrorCode.INVALID_REQUEST),
        ):
            request = ShareFetchRequest("group", "member", 5, is_renew_ack=True, **values)
            assert asyncio.run(ask(made.broker, ApiKey.SHARE_FETCH, 2, request)).error_code == code


def test_the_answer_about_offsets_lists_no_absent_topic_without_partitions(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("known", 1)]))
        part = AlterShareGroupOffsetsRequestPartition(0, 0)
        topics = [
            AlterShareGroupOffsetsRequestTopic("absent", [part]),
            AlterShareGroupOffsetsRequestTopic("absent-too"),
            AlterShareGroupOffsetsRequestTopic("known"),
        ]
        found = listed(made.broker, AlterShareGroupOffsetsRequest("group", topics))
        assert [topic.topic_name for topic in found] == ["absent", "known"]
        request = AlterShareGroupOffsetsRequest("", topics)
        answer = asyncio.run(ask(made.broker, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request))
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        assert answer.error_message == "The group id is invalid."


def test_a_partition_has_the_text_of_its_own_error_and_no_text_of_a_code() -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_and_text(None) == (ErrorCode.NONE, None)
    assert code_and_text(KafkaError(code)) == (code, None)
    assert code_and_text(KafkaError(code, code.message)) == (code, code.message)
