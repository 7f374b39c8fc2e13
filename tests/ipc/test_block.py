"""Blocks carry requests and answers whole, wherever the bytes are cut, and the answers come back in blocks."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kbroker.ipc.block import (
    ANSWERED,
    CLOSE,
    FAILED,
    Peer,
    answers,
    client_request,
    pack_answer,
    pack_peer,
    request_at,
    requests,
)
from kbroker.ipc.link import AsyncLink, FrameReader, frame_block, pack
from kbroker.ipc.messages import ClientRequest, Reply
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from tests.ipc.request_block import pack_request

PEER = Peer(7, "PLAINTEXT", "::1", 1234, "User:é", 2)


@given(st.lists(st.tuples(st.integers(-(1 << 62), -1), st.binary(max_size=20), st.binary(max_size=40))))
def test_requests_are_read_as_they_were_written(wanted: list[tuple[int, bytes, bytes]]) -> None:
    block = bytearray(b"".join(pack_request(*each) for each in wanted))
    assert len(block) % 8 == 0
    assert list(requests(block)) == wanted
    position = 0
    for each in wanted:
        assert request_at(block, position) == each[1:]
        position += len(pack_request(*each))


@given(st.lists(st.tuples(st.integers(-(1 << 62), -1), st.none() | st.binary(max_size=40))))
def test_answers_are_read_as_they_were_written(wanted: list[tuple[int, bytes | None]]) -> None:
    block = bytearray(b"".join(pack_answer(*each) for each in wanted))
    found = [(call, frame if status == ANSWERED else None) for call, status, frame in answers(block)]
    assert found == wanted


def test_an_answer_that_failed_says_so() -> None:
    found = list(answers(bytearray(pack_answer(-1, None) + pack_answer(-2, None, FAILED))))
    assert found == [(-1, CLOSE, b""), (-2, FAILED, b"")]


def test_a_request_is_what_the_network_process_would_have_said() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 9, "client", HeartbeatRequest("g", 1, "m"))[4:]
    found = client_request(pack_peer(PEER), frame)
    assert found == ClientRequest(
        7, ApiKey.HEARTBEAT, 4, 9, "client", "PLAINTEXT", "::1", 1234, "User:é", found.body, 2
    )
    assert frame.endswith(found.body)


def test_blocks_keep_their_place_between_messages() -> None:
    block = pack_request(-5, b"peer", b"frame") + pack_request(-6, b"", b"other")
    stream = pack(1, "one") + frame_block(block) + pack(2, "two")
    for size in (1, 7, 64, len(stream)):
        seen: list[Any] = []

        def keep(found: bytes, seen: list[Any] = seen) -> None:
            seen.append(bytes(found))

        reader = FrameReader(keep)
        for start in range(0, len(stream), size):
            for message in reader.feed(stream[start : start + size]):
                seen.append(message)
        assert seen == [(1, "one"), block, (2, "two")]


def test_replies_to_calls_of_a_block_come_in_a_block_in_their_order() -> None:
    async def run() -> None:
        def serve(link: AsyncLink, block: bytearray) -> None:
            for call, _, frame in requests(block):
                link.reply(call, frame * 2 if frame else None)

        got: list[tuple[int, int, bytes]] = []
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(
            lambda: AsyncLink(lambda *_: None, None, serve), "\0kbroker-test-block"
        )
        client = AsyncLink(lambda *_: None, None, lambda _, block: got.extend(answers(block)))
        await loop.create_unix_connection(lambda: client, "\0kbroker-test-block")
        client.send_block(b"".join(pack_request(-call, b"p", bytes(call % 3)) for call in range(1, 40)))
        while len(got) < 39:
            await asyncio.sleep(0.001)
        assert [call for call, _, _ in got] == [-call for call in range(1, 40)]
        assert all(status == (ANSWERED if -call % 3 else CLOSE) for call, status, _ in got)
        client.close()
        server.close()

    asyncio.run(run())


def test_a_reply_to_a_negative_call_is_packed_as_a_block() -> None:
    (message,) = [bytes(block) for block in _blocks(pack(0, Reply(-3, b"frame")))]
    assert message == pack_answer(-3, b"frame")


def _blocks(stream: bytes) -> list[bytearray]:
    seen: list[bytearray] = []
    assert not list(FrameReader(seen.append).feed(stream))
    return seen
