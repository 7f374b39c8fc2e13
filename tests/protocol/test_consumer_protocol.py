"""Topics of all subscriptions together: the same as if each were decoded alone."""

import struct
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.groups.subscription import subscribed_topics, version_of
from kbroker.protocol.codec import decode
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
