"""Frames carry the headers that clients and Apache Kafka use."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.frame import (
    RequestHeader,
    client_id_bytes,
    encode_request,
    encode_response,
    flexible,
    framed_response,
    parse_request,
    parse_response,
    response_header_version,
)
from kbroker.protocol.messages import request_class, response_class
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatResponse
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import MAX_HEADER_TAGS, ProtocolError


@given(
    key=st.sampled_from(sorted(APIS)),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=50),
)
def test_requests_and_responses_of_every_api_and_version_come_back(
    key: int, correlation_id: int, client_id: str | None
) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        request, response = request_class(key)(), response_class(key)()
        frame = encode_request(key, version, correlation_id, client_id, request)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, body = parse_request(memoryview(frame)[4:])
        assert header == RequestHeader(key, version, correlation_id, client_id)
        assert decode_exact(type(request), version, frame[4:], body) == request
        answer = encode_response(key, version, correlation_id, response)
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        found, body = parse_response(answer[4:], key, version)
        assert found == correlation_id
        assert decode_exact(type(response), version, answer[4:], body) == response


def test_header_v1_has_no_tags_and_header_v2_keeps_the_legacy_client_id() -> None:
    v1 = bytes.fromhex("0003 0008 00000007 0002 6162".replace(" ", ""))
    assert parse_request(v1) == (RequestHeader(3, 8, 7, "ab"), len(v1))
    v2 = bytes.fromhex("0003 0009 00000007 0002 6162 02 05 01 ff 06 00".replace(" ", ""))
    assert parse_request(v2) == (RequestHeader(3, 9, 7, "ab"), len(v2))
    null = bytes.fromhex("0003 0009 00000007 ffff 00".replace(" ", ""))
    assert parse_request(null) == (RequestHeader(3, 9, 7, None), len(null))


def test_api_versions_answers_with_response_header_v0_at_every_version() -> None:
    assert encode_response(18, 3, 9, ApiVersionsResponse())[4:9].hex() == "0000000900"
    assert (
        encode_response(18, 3, 9, ApiVersionsResponse())[8:10] == b"\0\0"
    )  # error code, no tag section before
    assert len(encode_response(12, 4, 9, HeartbeatResponse())) == 4 + 4 + 1 + 4 + 2 + 1


def test_a_version_newer_than_known_is_flexible_when_the_newest_known_is() -> None:
    assert flexible(ApiKey.API_VERSIONS, 99)
    assert not flexible(ApiKey.SASL_HANDSHAKE, 99)
    frame = encode_request(18, 4, 1, "c", ApiVersionsRequest("kbroker", "1"))
    newer = frame[4:6] + b"\0\x63" + frame[8:]
    assert parse_request(newer)[0].api_version == 99


@pytest.mark.parametrize("key", [-1, 4, 7, 93, 32767])
def test_an_unknown_api_key_is_refused(key: int) -> None:
    with pytest.raises(ProtocolError, match=f"no API with key {key}"):
        parse_request(key.to_bytes(2, "big", signed=True) + bytes(8))


@given(st.binary(max_size=40))
def test_any_bytes_give_a_header_or_a_protocol_error(data: bytes) -> None:
    with suppress(ProtocolError):
        _, body = parse_request(data)
        assert 10 <= body <= len(data)


def test_every_cut_of_a_header_is_refused() -> None:
    frame = encode_request(3, 9, 1, "client", MetadataRequest())[4:]
    _, body = parse_request(frame)
    for end in range(body):
        with pytest.raises(ProtocolError):
            parse_request(frame[:end])


@pytest.mark.parametrize(
    ("count", "good"), [(1, True), (MAX_HEADER_TAGS, True), (MAX_HEADER_TAGS + 1, False)]
)
def test_a_header_has_a_bounded_number_of_tagged_fields(count: int, good: bool) -> None:
    frame = encode_request(ApiKey.METADATA, 9, 7, None, MetadataRequest([], False))[4:]
    header, rest = frame[:10], frame[11:]
    tagged = header + bytes((count,)) + bytes((9, 0)) * count + rest
    if good:
        assert tagged[parse_request(tagged)[1] :] == rest
    else:
        with pytest.raises(ProtocolError, match="tagged fields"):
            parse_request(tagged)


@pytest.mark.parametrize(("key", "version"), [(12, 3), (12, 4), (18, 0), (18, 3)])
def test_an_encoded_response_is_framed_as_the_response_itself(key: int, version: int) -> None:
    response = response_class(key)()
    body = encode(response, version)
    assert framed_response(key, version, 7, body) == encode_response(key, version, 7, response)


@pytest.mark.parametrize(
    ("key", "version", "header"), [(12, 3, 0), (12, 4, 1), (12, 99, 1), (18, 2, 0), (18, 3, 0), (17, 99, 0)]
)
def test_flexible_responses_have_header_v1(key: int, version: int, header: int) -> None:
    assert response_header_version(key, version) == header


def test_a_client_id_is_a_legacy_string() -> None:
    assert client_id_bytes(None) == b"\xff\xff"
    assert client_id_bytes("") == b"\0\0"
    assert client_id_bytes("\u00e9a") == b"\0\3\xc3\xa9a"


def test_a_client_id_may_end_with_the_header_and_not_beyond_it() -> None:
    header = bytes.fromhex("0003000800000007")
    assert parse_request(header + b"\0\2ab") == (RequestHeader(3, 8, 7, "ab"), 12)
    with pytest.raises(ProtocolError, match="client_id ends after the message"):
        parse_request(header + b"\0\3ab")
    assert parse_request(header + b"\0\1\xff") == (RequestHeader(3, 8, 7, "\ufffd"), 11)


def test_a_tagged_field_may_end_with_the_header_and_not_beyond_it() -> None:
    header = bytes.fromhex("0003000900000007ffff")
    assert parse_request(header + b"\1\5\2xy")[1] == 15
    with pytest.raises(ProtocolError, match="a tagged field ends after the message"):
        parse_request(header + b"\1\5\3xy")


def test_the_tags_of_a_response_are_skipped() -> None:
    assert parse_response(bytes.fromhex("0000000701050100ff"), 12, 4) == (7, 8)
    assert parse_response(bytes.fromhex("0000000700"), 12, 3) == (7, 4)
    for cut in (b"", b"\0\0\0", b"\0\0\0\7"):
        with pytest.raises(ProtocolError, match=f"response header: truncated at {len(cut)} bytes"):
            parse_response(cut, 12, 4)
