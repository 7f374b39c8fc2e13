"""Every message and version survives encoding, and no bytes make the decoder fail with anything but
ProtocolError."""

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.codec import decode, decode_exact, encode, encode_into
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import ProtocolError, Struct
from tests.protocol.random_messages import all_structs, random_struct, versions

ROOTS = all_structs()
SEEDS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("cls", ROOTS, ids=lambda cls: cls.__name__)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_decode_gives_back_what_was_encoded(cls: type[Struct], seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        message = random_struct(cls, version, rng)
        data = encode(message, version)
        assert decode_exact(cls, version, data) == message
        assert decode(cls, version, memoryview(b"??" + data + b"!"), 2) == (message, len(data) + 2)


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        action = rng.randrange(4)
        at = rng.randrange(len(out) + 1)
        if action == 0:
            del out[at:]
        elif action == 1:
            out[at:at] = rng.randbytes(rng.randint(1, 5))
        elif action == 2:
            out[at : at + 4] = rng.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x0f"]
            )
        elif out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


@pytest.mark.parametrize("cls", ROOTS, ids=lambda cls: cls.__name__)
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_damaged_bytes_give_a_message_or_a_protocol_error(cls: type[Struct], seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        data = encode(random_struct(cls, version, rng), version)
        for _ in range(5):
            with suppress(ProtocolError):
                decode(cls, version, mutated(data, rng))


@pytest.mark.parametrize("cls", ROOTS, ids=lambda cls: cls.__name__)
def test_every_cut_is_reported_as_truncated(cls: type[Struct]) -> None:
    rng = random.Random(7)
    for version in versions(cls):
        data = encode(random_struct(cls, version, rng), version)
        for end in {0, 1, len(data) // 2, len(data) - 1} & set(range(len(data))):
            with pytest.raises(ProtocolError):
                decode(cls, version, data[:end])


@given(data=st.binary(max_size=200), seed=SEEDS)
@settings(max_examples=500, deadline=None)
def test_random_bytes_give_a_message_or_a_protocol_error(data: bytes, seed: int) -> None:
    rng = random.Random(seed)
    cls = rng.choice(ROOTS)
    for version in versions(cls):
        with suppress(ProtocolError):
            decode(cls, version, data)


def raises(text: str) -> Any:
    return pytest.raises(ProtocolError, match=text)


def test_an_array_longer_than_the_message_is_refused_before_it_is_made() -> None:
    with raises("more elements"):
        decode(MetadataRequest, 1, b"\x7f\xff\xff\xff")


def test_null_where_null_is_not_allowed_is_refused() -> None:
    with raises("topics is null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    with raises("mechanism is null"):
        decode(SaslHandshakeRequest, 0, b"\xff\xff")
    with raises("SaslHandshakeRequest"):
        encode(SaslHandshakeRequest(None), 0)


def test_bad_utf_8_is_read_as_kafka_reads_it_and_never_written() -> None:
    assert decode(SaslHandshakeRequest, 0, b"\x00\x02\xc3\x28")[0] == SaslHandshakeRequest("\ufffd(")
    with raises("surrogates"):
        encode(SaslHandshakeRequest("\ud800"), 0)


def test_bytes_after_the_message_are_refused_by_decode_exact() -> None:
    with raises("1 bytes after its end"):
        decode_exact(SaslHandshakeRequest, 0, b"\x00\x01a!")


def test_an_unknown_version_is_refused_both_ways() -> None:
    with raises("has versions 0-1, not 2"):
        decode(SaslHandshakeRequest, 2, b"\x00\x01a")
    with raises("has versions 0-1, not -1"):
        encode(SaslHandshakeRequest("a"), -1)


def test_a_value_that_does_not_fit_is_refused_and_leaves_the_output_as_it_was() -> None:
    out = bytearray(b"before")
    with raises("FetchRequest v4"):
        encode_into(out, FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(2**31)])]), 4)
    assert out == b"before"
    with raises("topic_id is not 16 bytes"):
        encode(FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    assert plain.endswith(b"\0")
    assert decode_exact(MetadataRequest, 9, plain[:-1] + b"\x02\x63\x01!\xe4\x07\x00") == decode_exact(
        MetadataRequest, 9, plain
    )


def test_a_tagged_field_of_the_wrong_size_is_refused() -> None:
    data = encode(FetchRequest(replica_state=ReplicaState(7, 8)), 15)
    assert decode_exact(FetchRequest, 15, data).replica_state == ReplicaState(7, 8)
    at = data.index(b"\x01\x01\x0d")
    with raises("size of tagged field FetchRequest.replica_state is wrong"):
        decode(FetchRequest, 15, data[: at + 2] + b"\x0e" + data[at + 3 :] + b"\0")


def test_tagged_fields_at_their_default_take_no_bytes() -> None:
    assert encode(FetchRequest(), 15).endswith(b"\0")
    assert len(encode(FetchRequest(cluster_id="c"), 15)) == len(encode(FetchRequest(), 15)) + 4


def test_fields_that_the_version_lacks_are_dropped() -> None:
    assert encode(MetadataRequest(topics=[], allow_auto_topic_creation=False), 1) == b"\0\0\0\0"


def test_records_are_slices_of_the_input_and_bytes_are_copies() -> None:
    records = b"batch" * 10
    request = ProduceRequest(
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
    )
    data = memoryview(encode(request, 9))
    found = decode_exact(ProduceRequest, 9, data).topic_data[0].partition_data[0].records
    assert isinstance(found, memoryview)
    assert found.obj is data.obj
    assert found == records
