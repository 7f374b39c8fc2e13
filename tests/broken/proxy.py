"""Breaks a broker from outside: kbroker advertises this proxy, which breaks one guarantee per
topic.

What a client sees is one broker that acknowledges, orders and shows as the fault says; what is in
the log is what the real broker appended. The proxy takes producer ids out of the batches of broken
topics, since the real broker would notice the faults by them: idempotence is then a promise that
no broker keeps. Faults, by the topic's name:

    loses      every LOSE_EACH-th batch is acknowledged and never appended
    early      batches are acknowledged BEHIND requests before they are appended; a "crash" takes those not yet appended
    swaps      of two batches in a row the later one is appended first, now and then
    forgets    every RETRY_EACH-th batch is appended twice, as a retry that no producer state recognises
    past-lso   Fetch with read_committed is served as read_uncommitted

Any other topic is served as it is. The requests of a connection are handled one at a time.
"""

import asyncio
import struct
import threading
from dataclasses import dataclass, field

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as b
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.frame import encode_response, parse_request, parse_response
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PRODUCE, FETCH = 0, 1
LOSES, EARLY, SWAPS, FORGETS, PAST_LSO = "loses", "early", "swaps", "forgets", "past-lso"
FAULTS = (LOSES, EARLY, SWAPS, FORGETS, PAST_LSO)
LOSE_EACH, BEHIND, CRASH_AT, SWAP_EACH, RETRY_EACH = 7, 3, 12, 5, 7
SIZE = struct.Struct(">i")


@dataclass
class Progress:
    """The state of one broken topic (of one partition): its requests so far, the log's end, batches
    acknowledged too early."""

    requests: int = 0
    end: int = 0
    waiting: list[bytes] = field(default_factory=list)


@dataclass
class Produce:
    """A Produce request of one partition."""

    frame: bytes
    version: int
    correlation_id: int
    body_at: int
    request: ProduceRequest

    @property
    def topic(self) -> str:
        return self.request.topic_data[0].name

    @property
    def batch(self) -> bytes:
        return bytes(self.request.topic_data[0].partition_data[0].records or b"")

    @property
    def records(self) -> int:
        return int.from_bytes(self.batch[b.RECORD_COUNT : b.RECORD_COUNT + 4])

    def without_producer(self) -> bytes:
        """The frame without the batch's producer id, epoch and sequence."""
        batch = bytearray(self.batch)
        batch[b.PRODUCER_ID : b.RECORD_COUNT] = b"\xff" * (b.RECORD_COUNT - b.PRODUCER_ID)
        struct.pack_into(">I", batch, b.CRC, crc32c(memoryview(batch)[b.ATTRIBUTES :]))
        self.request.topic_data[0].partition_data[0].records = bytes(batch)
        return self.frame[: self.body_at] + encode(self.request, self.version)

    def answer(self, base_offset: int) -> bytes:
        """An acknowledgement, with its size."""
        index = self.request.topic_data[0].partition_data[0].index
        partition = PartitionProduceResponse(index, 0, base_offset)
        topic = TopicProduceResponse(name=self.topic, partition_responses=[partition])
        return encode_response(PRODUCE, self.version, self.correlation_id, ProduceResponse([topic]))


class BrokenBroker:
    """Listens on 127.0.0.1 and breaks the traffic that passes through. Runs in: a thread of the
    test, from `start` to
    `stop`."""

    def __init__(self) -> None:
        self.upstream = ("127.0.0.1", 0)
        self.port = 0
        self.committed: dict[str, int] = dict.fromkeys(FAULTS, 0)
        self._topics: dict[str, Progress] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="broken-broker")
        self._ready = threading.Event()

    def start(self) -> int:
        """Begins to listen; gives the port. `upstream` may be named later, before the first client
        comes."""
        self._thread.start()
        assert self._ready.wait(60)
        return self.port

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self.upstream)
        connection = Connection(self, reader, writer, up_reader, up_writer)
        try:
            while True:
                await connection.handle(await read_frame(reader))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            up_writer.close()

    def progress(self, topic: str) -> Progress:
        return self._topics.setdefault(topic, Progress())


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
    return await reader.readexactly(size)


@dataclass
class Connection:
    """One client's connection and the one to the real broker."""

    proxy: BrokenBroker
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    up_reader: asyncio.StreamReader
    up_writer: asyncio.StreamWriter

    async def ask(self, frame: bytes) -> bytes:
        """The real broker's answer to a frame."""
        self.up_writer.write(SIZE.pack(len(frame)) + frame)
        return await read_frame(self.up_reader)

    def say(self, frame: bytes) -> None:
        self.writer.write(SIZE.pack(len(frame)) + frame)

    async def handle(self, frame: bytes) -> None:
        header, body_at = parse_request(frame)
        if header.api_key == PRODUCE:
            request = decode_exact(ProduceRequest, header.api_version, frame, body_at)
            produce = Produce(frame, header.api_version, header.correlation_id, body_at, request)
            if produce.topic in (LOSES, EARLY, SWAPS, FORGETS):
                await self.break_produce(produce)
                return
        if header.api_key == FETCH:
            fetch = decode_exact(FetchRequest, header.api_version, frame, body_at)
            if fetch.isolation_level == 1:
                fetch.isolation_level = 0
                self.proxy.committed[PAST_LSO] += 1
                frame = frame[:body_at] + encode(fetch, header.api_version)
        self.say(await self.ask(frame))

    async def break_produce(self, produce: Produce) -> None:
        progress = self.proxy.progress(produce.topic)
        progress.requests += 1
        turn = progress.requests
        if produce.topic == LOSES and turn % LOSE_EACH == 0:
            self.writer.write(produce.answer(progress.end))
        elif produce.topic == EARLY and turn <= CRASH_AT:
            await self.acknowledge_early(produce, progress)
            return
        elif produce.topic == SWAPS and turn % SWAP_EACH in (1, 2):
            await self.swap(produce, progress)
            return
        else:
            await self.append(produce, progress)
            if produce.topic == FORGETS and turn % RETRY_EACH == 0:
                await self.ask(produce.without_producer())
            else:
                return
        self.proxy.committed[produce.topic] += 1

    async def append(self, produce: Produce, progress: Progress) -> None:
        answer = await self.ask(produce.without_producer())
        _, at = parse_response(answer, PRODUCE, produce.version)
        response = decode_exact(ProduceResponse, produce.version, answer, at)
        base = response.responses[0].partition_responses[0].base_offset
        progress.end = base + produce.records
        self.say(answer)

    async def acknowledge_early(self, produce: Produce, progress: Progress) -> None:
        self.writer.write(produce.answer(progress.end))
        progress.end += produce.records
        progress.waiting.append(produce.without_producer())
        if progress.requests == CRASH_AT:
            progress.waiting.clear()
            self.proxy.committed[EARLY] += 1
        elif len(progress.waiting) > BEHIND:
            await self.ask(progress.waiting.pop(0))

    async def swap(self, produce: Produce, progress: Progress) -> None:
        """Acknowledges a batch, or appends it before the previous one, which was only
        acknowledged."""
        self.writer.write(produce.answer(progress.end))
        progress.end += produce.records
        held = progress.waiting.pop() if progress.waiting else None
        if held is None:
            progress.waiting.append(produce.without_producer())
            return
        await self.ask(produce.without_producer())
        await self.ask(held)
        self.proxy.committed[SWAPS] += 1
