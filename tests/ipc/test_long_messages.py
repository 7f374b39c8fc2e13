"""Long requests and answers cross a link in pieces: whole, beside short messages, and no callback
of the loop takes long for one."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kbroker.ipc.block import answers as block_answers
from kbroker.ipc.link import AsyncLink, FrameReader
from kbroker.ipc.long_messages import HEADED, LONG_BYTES, PIECE, PIECE_BYTES, Outgoing, give_back
from kbroker.ipc.messages import ClientRequest, LongRequest, Reply
from kbroker.ipc.wire import Malformed, pack
from kbroker.protocol.long_frame import LongFrame
from tests.callbacks import LongestCallback, Tries

EMPTY = ClientRequest(1, 3, 1, 4, None, "PLAINTEXT", "::1", 5, "User:u", b"")
CONTENT = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"end"
MAX_MS = 20.0
"""In one piece, the copies of the content below take more than fifty."""
MANY = 48 << 20


def in_block(block: bytearray) -> Iterator[tuple[int, bytes]]:
    for call, _, frame in block_answers(block):
        yield call, frame


def frames(call_id: int, *parts: bytes) -> list[bytes]:
    message, found = Outgoing(call_id, parts), []
    while message.left:
        found.append(message.next_piece())
    return found


def read(stream: bytes) -> list[tuple[int, Any]]:
    return list(FrameReader(lambda _: None).feed(stream))


def test_a_long_request_is_put_together() -> None:
    stream = pack(7, LongRequest(EMPTY, len(CONTENT))) + b"".join(frames(7, CONTENT))
    ((call_id, found),) = read(stream)
    assert (call_id, found) == (7, replace(EMPTY, body=CONTENT))


def test_pieces_of_several_messages_may_come_in_turns() -> None:
    reader = FrameReader(lambda _: None)
    announced = pack(7, LongRequest(EMPTY, len(CONTENT))) + pack(8, LongRequest(EMPTY, len(CONTENT)))
    assert not list(reader.feed(announced))
    seen = []
    for pair in zip(frames(7, CONTENT), frames(8, CONTENT), frames(-9, CONTENT), strict=True):
        seen += list(reader.feed(b"".join(pair) + pack(1, EMPTY)))
    assert [call_id for call_id, _ in seen] == [1, 1, 1, 7, 8, 0, 1]
    answer = seen[-2][1]
    assert (answer.call_id, bytes(answer.value)) == (-9, CONTENT)


def test_parts_of_any_length_become_pieces() -> None:
    parts = (b"a", b"", CONTENT, b"b" * PIECE_BYTES)
    found = frames(3, *parts)
    assert max(map(len, found)) == PIECE_BYTES + HEADED.size
    ((_, reply),) = read(b"".join(found))
    assert len(reply.value) == sum(map(len, parts))
    assert bytes(reply.value) == b"".join(parts)


@pytest.mark.parametrize(
    "wrong",
    [
        HEADED.pack(PIECE | 16, 7, 0),
        HEADED.pack(PIECE | 17 + PIECE_BYTES, 7, 0),
        HEADED.pack(PIECE | 1 << 31 | 17, 7, 0) + b"x",
        HEADED.pack(PIECE | 17, 7, -1) + b"x",
        HEADED.pack(PIECE | 17, 7, 1 << 40) + b"x",
        pack(7, LongRequest(EMPTY, 5)) + HEADED.pack(PIECE | 17, 7, 5) + b"x",
        pack(7, LongRequest(EMPTY, 5)) + HEADED.pack(PIECE | 22, 7, 0) + b"xxxxxx",
        pack(7, LongRequest(EMPTY, 0)),
        pack(7, LongRequest(EMPTY, 1 << 40)),
    ],
)
def test_a_piece_that_does_not_fit_is_malformed(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        read(wrong)


async def linked(
    serve: Callable[[AsyncLink, int, Any], None], on_block: Callable[[bytearray], None] = lambda _: None
) -> tuple[AsyncLink, AsyncLink]:
    """(client, server) of one link."""
    ends = socket.socketpair()
    client = AsyncLink(lambda *_: None, None, lambda _, block: on_block(block), of_requests=False)
    links = client, AsyncLink(serve)
    loop = asyncio.get_running_loop()
    for end, link in zip(ends, links, strict=True):
        await loop.create_connection(lambda link=link: link, sock=end)  # type: ignore[misc]
    return links


async def ask_long(client: AsyncLink, content: bytes) -> Reply | None:
    found: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    sent = asyncio.Event()
    client.ask_long(EMPTY, memoryview(content), found.set_result, sent.set)
    await sent.wait()
    return await found


@pytest.mark.parametrize("negative", [False, True])
def test_an_answer_is_long_by_its_bytes_or_its_parts(negative: bool) -> None:
    answers: list[bytes | LongFrame] = [
        b"s", b"x" * LONG_BYTES, b"x" * (LONG_BYTES + 1), LongFrame([b"a", b"b"], 2)
    ]  # fmt: skip

    async def run() -> None:
        def serve(link: AsyncLink, _: int, body: ClientRequest) -> None:
            link.reply(-body.correlation_id if negative else body.correlation_id, answers[body.api_version])

        got: asyncio.Queue[tuple[int, bytes | LongFrame]] = asyncio.Queue()
        client, server = await linked(serve, lambda block: got.put_nowait(next(in_block(block))))
        client.on_long_answer = lambda call, frame: got.put_nowait((call, frame))
        for number, answer in enumerate(answers):
            requested = replace(EMPTY, api_version=number, correlation_id=number + 1)
            client.ask(
                requested, lambda reply: got.put_nowait((reply.call_id, reply.value)) if reply else None
            )
            call, found = await asyncio.wait_for(got.get(), 60)
            assert call == (-1 - number if negative else 1 + number)
            assert bytes(found) == bytes(answer)
            assert isinstance(found, LongFrame) == (number > 1)
        server.close()

    asyncio.run(run())


def test_long_messages_do_not_block_others_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(MANY)
    longest, tries = LongestCallback(monkeypatch), Tries(MAX_MS)

    async def scene() -> None:
        beside = 0

        def serve(link: AsyncLink, call_id: int, body: ClientRequest) -> None:
            if body.body:
                assert len(body.body) == MANY
                link.reply(call_id, content)
                tasks.append(asyncio.ensure_future(give_back(body.body)))
            else:
                link.reply(call_id, b"short")

        tasks: list[asyncio.Future[None]] = []
        client, server = await linked(serve)
        asking = asyncio.ensure_future(ask_long(client, content))
        while not asking.done():
            assert await client.call(EMPTY) == b"short"
            beside += 1
        reply = asking.result()
        assert reply is not None
        assert len(reply.value) == MANY
        assert beside > 20
        await asyncio.gather(*tasks)
        server.close()

    while (
        tries.needed()
    ):  # the kernel charges the pages of MANY bytes to a callback, and a busy one takes long
        longest.reset()
        asyncio.run(scene())
        tries.add(longest.ms)
    tries.check()


def test_a_link_that_is_lost_while_a_request_leaves_needs_its_body_no_more() -> None:
    async def run() -> None:
        client, server = await linked(lambda link, *_: link.close())
        asking = asyncio.ensure_future(ask_long(client, bytes(MANY)))
        await asyncio.sleep(0)
        assert server._transport is not None
        server._transport.abort()
        assert await asyncio.wait_for(asking, 60) is None
        assert await ask_long(client, CONTENT) is None

    asyncio.run(run())
