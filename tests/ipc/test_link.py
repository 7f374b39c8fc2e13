"""Links carry calls, replies and errors, and say when the other side went away."""

import asyncio
import logging
import socket
from typing import Any, cast

import pytest

from kbroker.ipc.block import answers
from kbroker.ipc.link import (
    BLOCK,
    MAX_TOGETHER,
    TOGETHER,
    TOGETHER_BYTES,
    AsyncLink,
    FrameReader,
    LinkClosed,
)
from kbroker.ipc.messages import DeleteRecords, Hello, Image, Reply
from kbroker.ipc.wire import LENGTH, Malformed, pack
from kbroker.protocol.errors import ErrorCode, KafkaError


async def _pair(answer: Any) -> tuple[AsyncLink, AsyncLink]:
    """(client, server) of one link."""
    ends = socket.socketpair()
    links = AsyncLink(lambda *_: None), AsyncLink(answer)
    loop = asyncio.get_running_loop()
    for end, link in zip(ends, links, strict=True):
        await loop.create_connection(lambda link=link: link, sock=end)  # type: ignore[misc]
    return links


def test_call_gets_its_own_reply_even_out_of_order() -> None:
    async def run() -> None:
        calls: list[tuple[int, Any]] = []

        def answer(link: AsyncLink, call_id: int, body: DeleteRecords) -> None:
            calls.append((call_id, body.offset))
            if len(calls) == 2:
                for waiting, number in reversed(calls):
                    link.reply(waiting, number * 10)

        client, server = await _pair(answer)
        assert await asyncio.gather(*(client.call(DeleteRecords(0, n)) for n in (1, 2))) == [10, 20]
        server.close()

    asyncio.run(run())


def test_error_reply_raises_the_kafka_error() -> None:
    async def run() -> None:
        def answer(link: AsyncLink, call_id: int, _: Any) -> None:
            link.reply(call_id, error=ErrorCode.OFFSET_OUT_OF_RANGE, message="no")

        client, server = await _pair(answer)
        with pytest.raises(KafkaError) as failure:
            await client.call(DeleteRecords(1, 2))
        assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        server.close()

    asyncio.run(run())


def test_calls_under_way_fail_when_the_peer_dies() -> None:
    async def run() -> None:
        client, _ = await _pair(lambda link, *_: link.close())
        for _ in range(2):
            with pytest.raises(LinkClosed):
                await client.call(DeleteRecords(1, 2))

    asyncio.run(run())


def test_the_owner_of_a_link_notices_its_end_before_the_pending_calls_end() -> None:
    async def run() -> None:
        events: list[object] = []
        client = AsyncLink(lambda *_: None, lambda _: events.append("lost"))
        client.connection_made(cast(Any, Recorder()))
        client.ask(DeleteRecords(1, 2), events.append)
        client.connection_lost(None)
        assert events == ["lost", None]

    asyncio.run(run())


@pytest.mark.parametrize(
    "wrong",
    [
        b"\xff\xff\xff\x7f",
        LENGTH.pack(3) + b"abc",
        pack(1, Reply(1, "text instead of a number")),
        pack(1, Hello("io", "no number", 1)),
        pack(0, Image(1, True, ("no topic",))),
    ],
)
def test_bytes_that_are_no_message_close_the_link_with_one_line(
    wrong: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        got: list[Any] = []
        client, server = await _pair(lambda _, call_id, body: got.append(body))
        waiting = asyncio.ensure_future(client.call(DeleteRecords(1, 2)))
        await asyncio.sleep(0)
        assert server._transport is not None
        server._transport.write(wrong)
        with pytest.raises(LinkClosed):
            await asyncio.wait_for(waiting, 60)
        assert client.closed

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert [record.exc_info for record in caplog.records] == [None]


class Recorder:
    """A transport that remembers how many answers came with each write."""

    def __init__(self) -> None:
        self.numbers: list[list[int]] = []

    def set_write_buffer_limits(self, **_: int) -> None:
        """Nothing waits here."""

    def write(self, frame: bytes) -> None:
        block = bytearray(frame[LENGTH.size :])
        assert LENGTH.unpack_from(frame)[0] == len(block) | BLOCK
        self.numbers.append([-call for call, _, _ in answers(block)])


def answered(*turns: tuple[int, int]) -> list[int]:
    """How many answers leave with each write of a link. turns: answers in a turn of the loop, and
    bytes of each."""
    written = Recorder()

    async def run() -> None:
        link = AsyncLink(lambda *_: None)
        link.connection_made(cast(asyncio.BaseTransport, written))
        number = 0
        for count, size in turns:
            for _ in range(count):
                number += 1
                link.reply(-number, bytes(size))
            await asyncio.sleep(0)

    asyncio.run(run())
    every = [number for numbers in written.numbers for number in numbers]
    assert every == list(range(1, sum(count for count, _ in turns) + 1))
    return [len(numbers) for numbers in written.numbers]


def test_the_first_answers_of_a_turn_leave_early_and_the_others_in_few_writes() -> None:
    assert answered((1, 10)) == [1]
    assert answered((15, 10), (3, 10)) == [15, 3]
    few, many = TOGETHER, MAX_TOGETHER
    early = [few] * (many // few)
    assert answered((many + 5, 10), (many + 5, 10)) == [*early, 5, *early, 5]
    assert answered((3 * many + 7, 10)) == [*early, many, many, 7]


def test_no_answer_waits_for_many_bytes() -> None:
    size = TOGETHER_BYTES // 4
    assert set(answered((8 * TOGETHER, size))) == {TOGETHER}
    writes = answered((300, TOGETHER_BYTES // (TOGETHER + 8)))[MAX_TOGETHER // TOGETHER :]
    assert all(TOGETHER < count <= TOGETHER + 9 for count in writes[:-1])


def test_frames_are_found_wherever_the_bytes_are_cut() -> None:
    messages = [(1, Hello("io", 1, 2)), (0, DeleteRecords(3, 4)), (7, Hello("cleaner", 0, 5))]
    stream = b"".join(pack(call_id, body) for call_id, body in messages)
    for size in (1, 3, 5, 64, len(stream)):
        reader, seen = FrameReader(lambda _: None), list[tuple[int, Any]]()
        for start in range(0, len(stream), size):
            seen += reader.feed(stream[start : start + size])
        assert seen == messages


def test_a_frame_beyond_all_bounds_is_refused_before_it_has_arrived() -> None:
    with pytest.raises(Malformed):
        list(FrameReader(lambda _: None).feed(LENGTH.pack((1 << 30) + 1)))
