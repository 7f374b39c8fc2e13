"""A message in pieces has the same bytes as in one, in every version, whatever is in it."""

import random

import pytest

from kbroker.protocol.codec import encode
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.pieces import encode_in_pieces
from kbroker.protocol.schema import Field, ProtocolError, Schema, Struct
from tests.protocol.random_messages import random_struct, versions

CASES = [
    (MetadataResponse, "topics"),
    (MetadataResponse, "brokers"),
    (DescribeTopicPartitionsResponse, "topics"),
    (ConsumerGroupDescribeResponse, "groups"),
]


@pytest.mark.parametrize(("cls", "array"), CASES)
def test_the_pieces_add_up_to_the_message(cls: type[Struct], array: str) -> None:
    rng = random.Random(5)
    for version in versions(cls):
        for _ in range(20):
            message = random_struct(cls, version, rng)
            pieces = encode_in_pieces(message, array, version)
            found = b"".join((pieces.before, pieces.length, *pieces.elements, pieces.after))
            assert found == encode(message, version)
            assert pieces.elements == [encode(each, version) for each in getattr(message, array)]


def test_a_long_array_has_a_long_length() -> None:
    message = MetadataResponse()
    message.topics = [random_struct(type(message).SCHEMA.fields[4].item, 12, random.Random(1))] * 300
    assert len(encode_in_pieces(message, "topics", 12).length) == 2


def test_tagged_fields_before_the_array_are_refused() -> None:
    class Tagged(Struct):
        SCHEMA = Schema(
            (0, 0),
            0,
            (Field("early", "int32", (0, 0), 0, tag=0, tagged=(0, 0)), Field("all", "[]struct", (0, 0), ())),
        )

    with pytest.raises(ProtocolError):
        encode_in_pieces(Tagged(), "all", 0)
