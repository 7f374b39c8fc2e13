"""A network process inside this one: no loop runs beside a test's input, and the IO worker and
control are stand-ins that are called in turn."""

import asyncio
import atexit
import shutil
import socket
import struct
from typing import Any

import numpy as np

from kbroker.ipc.fds import Accepted
from kbroker.ipc.layout import AppendEntry, Slot, SlotFlag
from kbroker.ipc.messages import ClientRequest, Reply, VerifyTransaction
from kbroker.ipc.ring import ring_take
from kbroker.log import files
from kbroker.net.connections.connection import Connection
from kbroker.net.dispatch import Dispatch
from kbroker.net.fetch import residency
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.process import NetworkProcess
from kbroker.net.rows import Context
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.compression import Codec
from kbroker.protocol.frame import parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.records import build_batch
from tests.net.doubles import SERVED, NetNode
from tests.net.requests import FETCH, PRODUCE

TOPICS = {"t": 3, "topic-of-a-longer-name": 2}
TURNS = 300
FILLED = 3
"""Batches of partition 0 of t."""
SETTINGS = {"kbroker.sendfile.min.bytes": str(1 << 30)}


class _Control:
    """A link to control that answers each request with nothing, and lets transactions begin."""

    connected = True

    async def verify(self, request: VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
        return tuple((0, None) for _ in request.partitions)

    def request(self, _: ClientRequest, then: Any) -> None:
        then(Reply(0, b"", 0, ""))

    async def request_long(self, request: ClientRequest, body: Any, then: Any) -> None:
        self.request(request, then)

    def report_closed(self, _: int) -> None:
        """Nothing to forget."""


class NetworkRoom:
    """Give it what a client sends; `pushed` are the batches that went to the IO worker."""

    def __init__(self) -> None:
        self.node = NetNode(TOPICS, SETTINGS)
        atexit.register(shutil.rmtree, self.node.folder, True)
        self.loop = asyncio.new_event_loop()
        self.pushed: list[tuple[int, bytes]] = []
        self._settle_slots()
        self.loop.run_until_complete(self._start())
        self._out = np.zeros((256, 8), np.int64)
        self._ids = 0
        self._free = self._resources()

    def _settle_slots(self) -> None:
        """A log with some batches, and topics that store batches otherwise than they come."""
        slots = self.node.shared.slots
        slots[1, Slot.FLAGS] |= SlotFlag.COMPACTED
        slots[2, Slot.COMPRESSION] = Codec.GZIP
        slots[3, Slot.FLAGS] |= SlotFlag.LOG_APPEND_TIME
        slots[4, Slot.COMPRESSION] = Codec.NONE
        position = 0
        for number in range(FILLED):
            batch = build_batch([(b"k", b"value %d" % number, (), 1_700_000_000_000)], base_offset=number)
            with open(files.path(str(self.node.folders[0]), 0, files.LOG), "ab") as log:
                log.write(batch)
            position += len(batch)
        self.node.worker.publish(0, FILLED, position)

    async def _start(self) -> None:
        node = self.node
        process = self.process = NetworkProcess(node.shared, 0, node.config, node._net_end)
        fetches = Fetches(process, node.config, residency.choose(node.config.log_dirs))
        process.forwarding.serves(SERVED)
        process.topics.apply(node.image.topics, (), True, 1)
        control: Any = _Control()
        process.transactions.ask = control.verify
        process.server = Dispatch(process, control, fetches, None, SERVED)
        process._loop = self.loop
        process.handoff.report = process.handoff.closed_ids.clear  # type: ignore[method-assign]

    def give(self, pieces: list[bytes]) -> bytes:
        """Send pieces of bytes; what was answered."""
        self.pushed.clear()
        return self.loop.run_until_complete(self._given(pieces))

    async def _given(self, pieces: list[bytes]) -> bytes:
        client, served = socket.socketpair()
        client.setblocking(False)
        self._ids += 1
        self.process._open(Accepted(self._ids, 0, "127.0.0.1", 1), served.detach())
        connection = next(iter(self.process.connections.values()))
        answered = b""
        try:
            for piece in pieces:
                client.send(piece)
                answered += await self._settled(client, connection)
            client.shutdown(socket.SHUT_WR)
            answered += await self._settled(client, connection)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self.process.close(connection, "the input has ended")
            self._complete()
            self.process.turn()
            await asyncio.sleep(0)
            self.process.turn()
            client.close()
        assert self._resources() == self._free, f"leaked: {self._free} before, {self._resources()} after"
        return answered

    async def _settled(self, client: socket.socket, connection: Connection) -> bytes:
        """Turns until nothing changes."""
        answered, quiet = b"", 0
        for _ in range(TURNS):
            self.process.turn()
            completed = self._complete()
            await asyncio.sleep(0)
            more = self._received(client)
            answered += more
            waits = self.process.checks.undecided and not connection.is_closed()
            if waits and not completed:
                await asyncio.sleep(0.001)
            quiet = 0 if completed or more or waits else quiet + 1
            if quiet == 3:
                return answered
        raise AssertionError(f"after {TURNS} turns the process still has work")

    @staticmethod
    def _received(client: socket.socket) -> bytes:
        try:
            return client.recv(1 << 20)
        except BlockingIOError:
            return b""

    def _complete(self) -> int:
        """The IO worker's work: note each batch, and complete it at offset 0."""
        shared = self.node.shared
        taken = int(ring_take(shared.append_ring(0, 0), shared.sizes.ring_entries, self._out))
        for entry in self._out[:taken].tolist():
            start, length = entry[AppendEntry.ADDRESS], entry[AppendEntry.LENGTH]
            slot = entry[AppendEntry.SLOT]
            self.pushed.append((slot, bytes(self.process.tables.arena_bytes[start : start + length])))
            self.node.worker._complete(0, entry[AppendEntry.TOKEN], 0, 0, slot)
        return taken

    def _resources(self) -> tuple[int, ...]:
        """What each connection must give back."""
        words = self.process.tables.words
        chunks = int(words[Context.FREE_CHUNK_COUNT]) + (int(words[Context.CURRENT]) >= 0)
        requests = int(words[Context.FREE_REQUESTS]), int(words[Context.FREE_RESULTS])
        return chunks, *requests


def sent_requests(stream: bytes) -> dict[int, tuple[int, int]]:
    """API and version by correlation id, of the requests of a stream whose ids differ."""
    found: dict[int, tuple[int, int]] = {}
    twice: set[int] = set()
    at = 0
    while at + 12 <= len(stream):
        size, key, version, number = struct.unpack_from(">ihhi", stream, at)
        twice |= {number} & found.keys()
        found[number] = key, version
        if size < 0:
            break
        at += 4 + size
    return {number: asked for number, asked in found.items() if number not in twice}


def check_answers(stream: bytes, answered: bytes) -> None:
    """Answers are whole frames, and those of Produce and Fetch can be decoded."""
    asked = sent_requests(stream)
    at = 0
    while at < len(answered):
        assert at + 8 <= len(answered), "the beginning of an answer"
        size, number = struct.unpack_from(">ii", answered, at)
        frame = answered[at + 4 : at + 4 + size]
        assert len(frame) == size >= 4, f"an answer of {size} bytes, of which {len(frame)} came"
        key, version = asked.get(number, (-1, 0))
        if key in (PRODUCE, FETCH):
            start = parse_response(frame, key, version)[1]
            decode_exact(response_class(key), version, frame, start)
        at += 4 + size
