"""Subscriptions and assignments of the consumer protocol are read whatever bytes the clients
send."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol import consumer_protocol
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.consumer_protocol import (
    assigned_topics,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    subscribed_topics,
    version_of,
)
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kbroker.protocol.schema import ProtocolError

TOPICS = (b"\0\0\0\0", b"\0\0\0\1\0\1a", b"\0\0\0\2\0\1a\0\1b", b"\0\0\0\2\0\1b\0\1a", b"\xff\xff\xff\xff")
USER_DATA = (
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\3abc",
    b"\0\0\0\4abc",
    b"\xff\xff\xff\xfe",
    b"\0\0",
    b"",
)
METADATA = st.builds(
    lambda version, topics, user_data, rest: struct.pack(">h", version) + topics + user_data + rest,
    st.sampled_from((0, 1, 3, 9, -1)),
    st.sampled_from(TOPICS),
    st.sampled_from(USER_DATA),
    st.sampled_from((b"", b"\0\0\0\0", b"owned")),
)


def one_by_one(metadata: Sequence[bytes]) -> frozenset[str] | None:
    topics: set[str] = set()
    try:
        for each in metadata:
            version_of(each)
            topics.update(decode(ConsumerProtocolSubscription, 0, each, 2)[0].topics)
    except ProtocolError:
        return None
    return frozenset(topics)


@given(st.lists(st.one_of(METADATA, st.binary(max_size=12)), max_size=5))
def test_subscriptions_are_read_as_if_each_were_alone(metadata: list[bytes]) -> None:
    assert subscribed_topics(metadata) == one_by_one(metadata)


@given(METADATA, st.integers(1, 4))
def test_repeated_topics_do_not_hide_what_cannot_be_read(metadata: bytes, cut: int) -> None:
    members = [metadata, metadata, metadata[:-cut], metadata]
    assert subscribed_topics(members) == one_by_one(members)


def assignment(*topics: TopicPartition, version: int = 3) -> bytes:
    return struct.pack(">h", version) + encode(ConsumerProtocolAssignment(list(topics)), min(version, 3))


ORDERS, AUDIT = TopicPartition("orders", [1, 0]), TopicPartition("audit", [2])
WHOLE = assignment(ORDERS, AUDIT)


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_an_assignment_is_its_topics_in_order(version: int) -> None:
    assert assigned_topics(assignment(ORDERS, AUDIT, version=version)) == ([ORDERS, AUDIT], None)


def test_no_bytes_are_no_topics_and_no_error() -> None:
    assert assigned_topics(b"") == ([], None)


def test_a_cut_assignment_gives_the_topics_before_the_cut() -> None:
    first_topic = len(assignment(ORDERS)) - 4  # without the length of the user data
    for length in range(1, len(WHOLE)):
        found, reason = assigned_topics(WHOLE[:length])
        assert reason, length
        assert bool(found) is (length >= first_topic), length
        assert found == [ORDERS, AUDIT][: len(found)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff" + WHOLE[2:], "version -1"),
        (struct.pack(">hi", 0, -2), "-2 topics"),
        (struct.pack(">hi", 0, 2**31 - 1), "truncated"),
        (struct.pack(">hih6si", 0, 1, 6, b"orders", 2**31 - 1), "TopicPartition"),
        (b"\x00", "only 1 bytes"),
    ],
)
def test_bytes_that_are_no_assignment_are_named(data: bytes, reason: str) -> None:
    found, reported = assigned_topics(data)
    assert found == []
    assert reason in (reported or "")


def subscription(*topics: str, version: int = 3) -> bytes:
    body = encode(ConsumerProtocolSubscription(list(topics)), min(version, 3))
    return struct.pack(">h", version) + body


def test_the_topics_of_a_group_have_a_bound_over_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_protocol, "MAX_TOPICS", 3)
    two, one, same = subscription("a", "b"), subscription("c"), subscription("a", "b")
    assert subscribed_topics([two, one]) == {"a", "b", "c"}
    assert subscribed_topics([two, same]) is None
    assert subscribed_topics([subscription("a", "b", "c", "d")]) is None


def test_members_without_topics_subscribe_to_none() -> None:
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([subscription(), subscription()]) == frozenset()


def test_a_version_takes_two_bytes_and_is_not_negative() -> None:
    assert [version_of(data) for data in (b"\0\0", b"\0\3rest", b"\x7f\xff")] == [0, 3, 32767]
    for data in (b"", b"\0", b"\xff\xff"):
        with pytest.raises(ProtocolError):
            version_of(data)


@pytest.mark.parametrize("version", [0, 3, 4, 32767])
def test_a_newer_version_is_read_as_the_newest_known_one(version: int) -> None:
    assert parse_subscription(subscription("a", "b", version=version)).topics == ["a", "b"]
    assert parse_assignment(assignment(ORDERS, version=version)).assigned_partitions == [ORDERS]


@pytest.mark.parametrize(("version", "written"), [(0, 0), (1, 1), (3, 3), (4, 3), (99, 3)])
def test_an_assignment_is_written_in_a_known_version(version: int, written: int) -> None:
    data = encode_assignment([("orders", [1, 0]), ("audit", [2])], version)
    assert version_of(data) == written
    assert parse_assignment(data).assigned_partitions == [ORDERS, AUDIT]
    assert parse_assignment(data).user_data is None
