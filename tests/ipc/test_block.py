"""Blocks carry requests and answers whole, wherever the bytes are cut, and the answers come back in
blocks."""

import asyncio
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.ipc.block import (
    ANSWERED,
    CLOSE,
    FAILED,
    HEAD,
    HEAD_BYTES,
    Peer,
    answers,
    client_request,
    pack_answer,
    pack_peer,
    request_at,
    requests,
)
from kbroker.ipc.link import AsyncLink, FrameReader, frame_block
from kbroker.ipc.messages import ClientRequest, Hello
from kbroker.ipc.wire import Malformed, pack
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.schema import ProtocolError
from tests.ipc.request_block import pack_request

PEER = Peer(7, "PLAINTEXT", "::1", 1234, "User:é", 2)


@given(st.lists(st.tuples(st.integers(-(1 << 62), -1), st.binary(max_size=20), st.binary(max_size=40))))
def test_requests_are_read_as_they_were_written(expected: list[tuple[int, bytes, bytes]]) -> None:
    block = bytearray(b"".join(pack_request(*each) for each in expected))
    assert len(block) % 8 == 0
    assert list(requests(block)) == expected
    position = 0
    for each in expected:
        assert request_at(block, position) == each[1:]
        position += len(pack_request(*each))


@given(st.lists(st.tuples(st.integers(-(1 << 62), -1), st.none() | st.binary(max_size=40))))
def test_answers_are_read_as_they_were_written(expected: list[tuple[int, bytes | None]]) -> None:
    block = bytearray(b"".join(pack_answer(*each) for each in expected))
    found = [(call, frame if status == ANSWERED else None) for call, status, frame in answers(block)]
    assert found == expected


def test_a_failed_answer_has_a_status() -> None:
    found = list(answers(bytearray(pack_answer(-1, None) + pack_answer(-2, None, FAILED))))
    assert found == [(-1, CLOSE, b""), (-2, FAILED, b"")]


def test_a_request_equals_that_of_the_network_process() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 9, "client", HeartbeatRequest("g", 1, "m"))[4:]
    found = client_request(pack_peer(PEER), frame)
    assert found == ClientRequest(
        7, ApiKey.HEARTBEAT, 4, 9, "client", "PLAINTEXT", "::1", 1234, "User:é", found.body, 2
    )
    assert frame.endswith(found.body)


def test_blocks_keep_their_place_between_messages() -> None:
    block = pack_request(-5, b"peer", b"frame") + pack_request(-6, b"", b"other")
    hello = Hello("io", 0, 1)
    stream = pack(1, hello) + frame_block(block) + pack(2, hello)
    for size in (1, 7, 64, len(stream)):
        seen: list[Any] = []

        def keep(found: bytes, seen: list[Any] = seen) -> None:
            seen.append(bytes(found))

        reader = FrameReader(lambda _: None, keep)
        for start in range(0, len(stream), size):
            for message in reader.feed(stream[start : start + size]):
                seen.append(message)
        assert seen == [(1, hello), block, (2, hello)]


def test_replies_to_calls_of_a_block_come_in_a_block_in_their_order() -> None:
    async def run() -> None:
        def serve(link: AsyncLink, block: bytearray) -> None:
            for call, _, frame in requests(block):
                link.reply(call, frame * 2 if frame else None)

        got: list[tuple[int, int, bytes]] = []
        loop = asyncio.get_running_loop()
        server = AsyncLink(lambda *_: None, None, serve)
        client = AsyncLink(
            lambda *_: None, None, lambda _, block: got.extend(answers(block)), of_requests=False
        )
        for end, link in zip(socket.socketpair(), (client, server), strict=True):
            await loop.create_connection(lambda link=link: link, sock=end)  # type: ignore[misc]
        client.send_block(b"".join(pack_request(-call, b"p", bytes(call % 3)) for call in range(1, 40)))
        while len(got) < 39:
            await asyncio.sleep(0.001)
        assert [call for call, _, _ in got] == [-call for call in range(1, 40)]
        assert all(status == (ANSWERED if -call % 3 else CLOSE) for call, status, _ in got)
        client.close()
        server.close()

    asyncio.run(run())


def test_a_block_on_a_link_without_blocks_is_malformed() -> None:
    with pytest.raises(Malformed):
        list(FrameReader(lambda _: None).feed(frame_block(pack_request(-5, b"peer", b"frame"))))


def whole(block: bytes, of_requests: bool) -> bool:
    """Whether a link takes the block."""
    reader = FrameReader(lambda _: None, lambda _: None, of_requests)
    try:
        return not list(reader.feed(frame_block(block)))
    except Malformed:
        return False


def test_a_block_is_complete_unless_a_length_in_it_is_wrong() -> None:
    good = pack_request(-5, b"peer", b"frame")
    assert whole(b"", of_requests=True)
    assert whole(good * 3, of_requests=True)
    assert whole(pack_answer(-5, b"frame") + pack_answer(-6, None, FAILED), of_requests=False)
    for size in (0, -8, 8, 23, len(good) - 8, len(good) - 1, len(good) + 8, (1 << 63) - 8):
        assert not whole(HEAD.pack(size, -5, 4, 5) + good[HEAD_BYTES:], of_requests=True)
    for peer, frame in ((-1, 5), (4, -1), (9, 5), (4, 9), (1 << 30, 5), (4, (1 << 31) - 1)):
        assert not whole(HEAD.pack(len(good), -5, peer, frame) + good[HEAD_BYTES:], of_requests=True)
    for end in range(1, len(good)):
        assert not whole(good[:end], of_requests=True)


@given(st.binary(max_size=200))
def test_no_complete_block_reads_beyond_its_end(content: bytes) -> None:
    if whole(content, of_requests=True):
        for _, peer, frame in requests(bytearray(content)):
            assert len(peer) + len(frame) <= len(content)


def test_a_peer_that_is_none_is_refused() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 9, "client", HeartbeatRequest("g", 1, "m"))[4:]
    for wrong in (b"", b"\x80\x05N.", pack_peer(PEER)[:-1], pack_peer(PEER) + b"x"):
        with pytest.raises(ProtocolError):
            client_request(wrong, frame)
