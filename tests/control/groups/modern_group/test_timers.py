"""The timers of members of modern groups: a removal that could not be written is attempted
again."""

import pytest

from kbroker.control.groups.modern_group.timers import MAX_RETRY_MS, RETRY_MS
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.groups.consumer_members import Member, kafka_with, settle
from tests.control.groups.coordinator import Coordinator

SESSION_MS = 45_000


def members_of(kafka: Coordinator) -> set[str]:
    return {each.member_id for each in kafka.described().members}


def test_a_silent_member_whose_removal_could_not_be_written_is_removed_later() -> None:
    kafka = kafka_with()
    first, silent = Member(kafka, "a"), Member(kafka, "b")
    settle(kafka, first, silent)
    kafka.advance(SESSION_MS - 1000)
    first.beat()
    kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    kafka.advance(1000 + RETRY_MS)
    assert members_of(kafka) == {"a", "b"}
    kafka.append_error = ErrorCode.NONE
    kafka.advance(2 * RETRY_MS)
    assert members_of(kafka) == {"a"}
    assert first.beat() == {"t": [0, 1, 2, 3, 4, 5]}


def test_a_member_that_comes_back_meanwhile_is_not_removed() -> None:
    kafka = kafka_with()
    member = Member(kafka, "a")
    settle(kafka, member)
    kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    kafka.advance(SESSION_MS)
    kafka.append_error = ErrorCode.NONE
    member.beat()
    kafka.advance(MAX_RETRY_MS)
    assert members_of(kafka) == {"a"}


def test_a_member_that_leaves_is_removed_though_that_could_not_be_written_at_first() -> None:
    """It is gone, and has no more session."""
    kafka = kafka_with()
    first, gone = Member(kafka, "a"), Member(kafka, "b")
    settle(kafka, first, gone)
    kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        kafka.beat("b", -1)
    kafka.advance(RETRY_MS)
    assert members_of(kafka) == {"a", "b"}
    kafka.append_error = ErrorCode.NONE
    kafka.advance(RETRY_MS)
    assert members_of(kafka) == {"a"}


def test_a_member_that_left_and_joined_again_stays() -> None:
    kafka = kafka_with()
    member = Member(kafka, "a")
    settle(kafka, member)
    kafka.beat("a", -1)
    again = Member(kafka, "a")
    for _ in range(50):
        kafka.advance(1000)
        again.beat()
    assert members_of(kafka) == {"a"}
