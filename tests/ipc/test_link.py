"""Links carry calls, replies and errors, and say when the other side went away."""

import asyncio
import socket
from typing import Any

import pytest

from kbroker.ipc.link import AsyncLink, FrameReader, LinkClosed, PolledLink, pack
from kbroker.ipc.messages import DeleteRecords, Hello
from kbroker.protocol.errors import ErrorCode, KafkaError


def test_frames_are_found_wherever_the_bytes_are_cut() -> None:
    messages = [(1, Hello("io", 0, 1)), (0, "x" * 1000), (7, b"")]
    stream = b"".join(pack(call_id, body) for call_id, body in messages)
    for size in (1, 3, 5, 64, len(stream)):
        reader, seen = FrameReader(), list[tuple[int, Any]]()
        for start in range(0, len(stream), size):
            seen += reader.feed(stream[start : start + size])
        assert seen == messages


async def _pair(answer: Any) -> tuple[AsyncLink, asyncio.Server, str]:
    address = "\0kbroker-test-link"
    server_links: list[AsyncLink] = []

    def made() -> AsyncLink:
        link = AsyncLink(answer)
        server_links.append(link)
        return link

    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(made, address)
    client = AsyncLink(lambda *_: None)
    await loop.create_unix_connection(lambda: client, address)
    client.peer = server_links
    return client, server, address


def test_call_gets_its_own_reply_even_out_of_order() -> None:
    async def run() -> None:
        calls: list[tuple[int, Any]] = []

        def answer(link: AsyncLink, call_id: int, body: Any) -> None:
            calls.append((call_id, body))
            if len(calls) == 2:
                for waiting, number in reversed(calls):
                    link.reply(waiting, number * 10)

        client, server, _ = await _pair(answer)
        assert await asyncio.gather(client.call(1), client.call(2)) == [10, 20]
        server.close()

    asyncio.run(run())


def test_error_reply_raises_the_kafka_error() -> None:
    async def run() -> None:
        def answer(link: AsyncLink, call_id: int, _: Any) -> None:
            link.reply(call_id, error=ErrorCode.OFFSET_OUT_OF_RANGE, message="no")

        client, server, _ = await _pair(answer)
        with pytest.raises(KafkaError) as failure:
            await client.call(DeleteRecords(1, 2))
        assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        server.close()

    asyncio.run(run())


def test_calls_under_way_fail_when_the_peer_dies() -> None:
    async def run() -> None:
        client, server, _ = await _pair(lambda link, *_: link.close())
        with pytest.raises(LinkClosed):
            await client.call("anyone?")
        with pytest.raises(LinkClosed):
            await client.call("still there?")
        server.close()

    asyncio.run(run())


def test_polled_end_receives_everything_and_notices_the_end() -> None:
    address = "\0kbroker-test-polled"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen()
    link = PolledLink(address)
    peer, _ = listener.accept()
    assert link.receive() == []
    peer.sendall(pack(4, "a") + pack(5, "b"))
    assert link.receive() == [(4, "a"), (5, "b")]
    peer.close()
    with pytest.raises(LinkClosed):
        link.receive()
    link.close()
    listener.close()
