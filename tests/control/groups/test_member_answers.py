"""Answers that differ in one field: each is the bytes that the response alone would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.groups.member_answers import FramedAnswer, SharedAnswer, as_written
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse

IDS = st.integers(-(1 << 31), (1 << 31) - 1)
LENGTHS = st.sampled_from((0, 1, 126, 127, 128, 16_382, 16_383, 20_000))
NAMES = st.text(max_size=20)


@given(st.integers(0, 9), IDS, LENGTHS, NAMES, NAMES, IDS)
def test_a_shared_join_answer_is_that_of_the_codec(
    version: int, correlation_id: int, length: int, name: str, leader: str, generation: int
) -> None:
    def response(member_id: str) -> JoinGroupResponse:
        return JoinGroupResponse(0, 0, generation, "consumer", name, leader, False, member_id)

    shared = SharedAnswer(ApiKey.JOIN_GROUP, lambda _: response(""))
    for member_id in ("é" * (length // 2), "m" * length):
        alone = encode_response(ApiKey.JOIN_GROUP, version, correlation_id, response(member_id))
        assert shared.frame(version, correlation_id, member_id.encode()) == alone


@given(st.integers(0, 5), IDS, LENGTHS, NAMES)
def test_a_shared_sync_answer_is_that_of_the_codec(
    version: int, correlation_id: int, length: int, name: str
) -> None:
    def response(assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(0, 0, "consumer", name, assignment)

    shared = SharedAnswer(ApiKey.SYNC_GROUP, lambda _: response(b""))
    for assignment in (bytes(length), b"a" * length):
        alone = encode_response(ApiKey.SYNC_GROUP, version, correlation_id, response(assignment))
        assert shared.frame(version, correlation_id, assignment) == alone


def test_the_response_of_a_version_is_encoded_once() -> None:
    made: list[int] = []

    def response(version: int) -> SyncGroupResponse:
        made.append(version)
        return SyncGroupResponse()

    shared = SharedAnswer(ApiKey.SYNC_GROUP, response)
    for version in (5, 3, 5, 5, 3):
        shared.frame(version, 1, b"a")
    assert made == [5, 3]


def test_a_framed_answer_is_sent_once() -> None:
    sent: list[bytes] = []
    late: list[object] = []
    answer = FramedAnswer(5, 1, sent.append)
    answer.on_complete(late.append)
    assert answer.complete_framed(b"frame")
    assert not answer.complete_framed(b"again")
    assert not answer.complete(SyncGroupResponse())
    assert (sent, late) == ([b"frame"], [])


@pytest.mark.parametrize(
    ("version", "name", "written"),
    [
        (0, None, ""),
        (6, None, ""),
        (6, "range", "range"),
        (7, None, None),
        (7, "", None),
        (9, "range", "range"),
    ],
)
def test_a_missing_protocol_name_is_null_from_version_7_on(
    version: int, name: str | None, written: str | None
) -> None:
    assert as_written(version, JoinGroupResponse(protocol_name=name)).protocol_name == written
