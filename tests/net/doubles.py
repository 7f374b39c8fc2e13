"""A network process with stand-ins for the other processes: an IO worker and control that run in
the test."""

import os
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kbroker.config.broker import BrokerConfig
from kbroker.ipc import connecting, fds
from kbroker.ipc.block import client_request, pack_answer, requests
from kbroker.ipc.child import STACK_SIGNAL, STOP_SIGNAL, ChildContext, run_child
from kbroker.ipc.layout import AppendEntry, Operation, ProcessLine, Slot, SlotFlag, SlotState
from kbroker.ipc.link import FrameReader, frame_block
from kbroker.ipc.long_messages import LONG_BYTES, Outgoing
from kbroker.ipc.messages import (
    ClientRequest,
    Hello,
    Image,
    PartitionImage,
    Reply,
    TopicImage,
    VerifyTransaction,
)
from kbroker.ipc.ring import ring_length, ring_push, ring_take, wake_process
from kbroker.ipc.shared import Shared, Sizes
from kbroker.ipc.wire import pack, reply_decoder
from kbroker.log import files
from kbroker.net import worker as net_worker
from kbroker.net.api_versions import VersionAnswers
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import ProtocolError
from tests.forked_child import exit_code, fork, wait_until
from tests.ipc.links import next_link
from tests.peer.eventually import eventually

Answer = Callable[[ClientRequest], bytes | None]
SERVED = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


class WorkerDouble(threading.Thread):
    """Takes append entries in order, writes them to one segment file per partition, completes them;
    in partitions with write.caching=false after a sync. fdatasync: the sync, of a disk that may be
    slow."""

    def __init__(self, shared: Shared, folders: Mapping[int, Path]) -> None:
        super().__init__(daemon=True)
        self.shared = shared
        self.folders = folders
        self.fdatasync: Callable[[], None] = lambda: None
        self.hold = threading.Event()  # set: entries stay in the ring
        self.turns = 0
        self.ended = threading.Event()
        self.errors: dict[int, int] = {}  # slot -> error to answer
        self.read_ahead: list[tuple[int, int, int]] = []
        self.batches: list[tuple[int, int, int]] = []  # slot, base offset, records

    def run(self) -> None:
        line = self.shared.processes[self.shared.worker_process(0)]
        out = np.zeros((64, 8), np.int64)
        entries = self.shared.sizes.ring_entries
        while not self.ended.is_set():
            self.turns += 1
            line[ProcessLine.SLEEPING] = 1
            taken = 0
            for client in range(self.shared.sizes.clients):
                if self.hold.is_set():
                    continue
                taken = ring_take(self.shared.append_ring(client, 0), entries, out)
                for entry in out[:taken].tolist():
                    self._serve(client, entry)
                if taken:
                    wake_process(self.shared, client)
            if not taken:
                time.sleep(0.0005)

    def hold_entries(self) -> None:
        """Leave entries in the ring until `hold` is cleared. The turn in progress may still take
        some, so this waits for the next one."""
        self.hold.set()
        begun = self.turns
        eventually(lambda: self.turns > begun)

    def _serve(self, client: int, entry: list[int]) -> None:
        slot = entry[AppendEntry.SLOT]
        if entry[AppendEntry.OPERATION] == Operation.READ_AHEAD:
            self.read_ahead.append((slot, entry[AppendEntry.ADDRESS], entry[AppendEntry.LENGTH]))
            self._complete(client, entry[AppendEntry.TOKEN], 0, -1, slot)
            return
        error = self.errors.get(slot, 0)
        base = -1
        if not error:
            base = self.append(client, slot, entry[AppendEntry.ADDRESS], entry[AppendEntry.LENGTH])
        written_ns = time.monotonic_ns()
        if not error and self.shared.slots[slot, Slot.FLAGS] & SlotFlag.DURABLE:
            self.fdatasync()
        self._complete(client, entry[AppendEntry.TOKEN], error, base, slot, written_ns)
        self.notify(slot)

    def append(self, client: int, slot: int, address: int, length: int) -> int:
        """Write one batch; its base offset."""
        words = self.shared.slots[slot]
        memory = memoryview(self.shared.arenas[client].map)
        batch = bytearray(memory[address : address + length])
        base = int(words[Slot.LOG_END])
        struct.pack_into(">q", batch, rb.BASE_OFFSET, base)
        struct.pack_into(">i", batch, rb.PARTITION_LEADER_EPOCH, int(words[Slot.LEADER_EPOCH]))
        with open(files.path(str(self.folders[slot]), 0, files.LOG), "ab") as log:
            log.write(batch)
            end = log.tell()
        (count,) = struct.unpack_from(">i", batch, rb.RECORD_COUNT)
        self.batches.append((slot, base, count))
        self.publish(slot, base + count, end)
        return base

    def publish(self, slot: int, offset: int, position: int, stable: int | None = None) -> None:
        """Move the end of a log."""
        words = self.shared.slots[slot]
        words[Slot.SEQUENCE] += 1
        words[Slot.LOG_END] = words[Slot.HIGH_WATERMARK] = offset
        words[Slot.LAST_STABLE] = offset if stable is None else stable
        words[Slot.ACTIVE_END] = words[Slot.HW_POSITION] = position
        words[Slot.SEQUENCE] += 1

    def notify(self, slot: int) -> None:
        """Notify the network process if it waits for this slot."""
        words = self.shared.slots[slot]
        if words[Slot.WAITERS] & 1:
            words[Slot.WAITERS] = 0
            self._complete(0, -1, 0, -1, slot)
            wake_process(self.shared, 0)

    def _complete(
        self, client: int, token: int, error: int, base: int, slot: int, written_ns: int | None = None
    ) -> None:
        start = int(self.shared.slots[slot, Slot.LOG_START])
        now_ns = time.monotonic_ns()
        held_ns = 0 if written_ns is None else now_ns - written_ns
        entry = np.array([token, error, base, -1, start, slot, now_ns, held_ns], np.int64)
        while not ring_push(self.shared.completion_ring(client, 0), self.shared.sizes.ring_entries, entry):
            time.sleep(0.001)


class ControlDouble(threading.Thread):
    """Answers hello with its image, and client requests by a function."""

    def __init__(self, image: Image, answer: Answer) -> None:
        super().__init__(daemon=True)
        self.control_sockets = connecting.make()
        self.image = image
        self.answer = answer
        self.requests: list[ClientRequest] = []
        self.replied = threading.Event()
        self.link: socket.socket | None = None

    def run(self) -> None:
        while True:
            try:
                self.link = next_link(self.control_sockets.listener)
            except OSError:
                if self.control_sockets.listener.fileno() < 0:
                    return
                continue  # no descriptor was free, and the process tries again
            try:
                self._serve(self.link)
            except OSError:
                continue

    def _serve(self, link: socket.socket) -> None:
        def take(block: bytearray) -> None:
            for call_id, peer, frame in requests(block):
                try:
                    self._answer(link, call_id, client_request(peer, frame))
                except ProtocolError:
                    link.sendall(_frames(call_id, None))

        reader = FrameReader(lambda _: reply_decoder(self.image), take)
        while data := link.recv(1 << 16):
            for call_id, body in reader.feed(data):
                if isinstance(body, Hello):
                    link.sendall(pack(1, self.image))
                elif isinstance(body, Reply):
                    self.replied.set()
                elif isinstance(body, VerifyTransaction):
                    link.sendall(pack(0, Reply(call_id, self.verify(body))))
                elif isinstance(body, ClientRequest):
                    self._answer(link, call_id, body)

    def _answer(self, link: socket.socket, call_id: int, request: ClientRequest) -> None:
        self.requests.append(request)
        link.sendall(_frames(call_id, self.answer(request)))

    def verify(self, request: VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
        """Consent to every partition."""
        return tuple((0, None) for _ in request.partitions)

    def send(self, image: Image) -> None:
        """Send an image and wait until it is applied."""
        self.replied.clear()
        assert self.link is not None
        self.link.sendall(pack(2, image))
        assert self.replied.wait(60)

    def drop(self) -> None:
        """Close the link, as when control dies."""
        link = self.link  # the next one may be accepted before this is closed
        assert link is not None
        link.shutdown(socket.SHUT_RDWR)
        link.close()


def _frames(call_id: int, answer: bytes | None) -> bytes:
    """A reply as control's link sends it."""
    if answer is None or len(answer) <= LONG_BYTES:
        in_block = call_id < 0
        return frame_block(pack_answer(call_id, answer)) if in_block else pack(0, Reply(call_id, answer))
    message, frames = Outgoing(call_id, (answer,)), []
    while message.left:
        frames.append(message.next_piece())
    return b"".join(frames)


class NetNode:
    """One network process (a fork) and its stand-ins. topics: name -> partitions."""

    def __init__(
        self,
        topics: Mapping[str, int],
        settings: Mapping[str, str] | None = None,
        answer: Answer = lambda _: None,
        ring_entries: int = 256,
        internal: tuple[str, ...] = (),
        version_answers: VersionAnswers | None = None,
    ) -> None:
        self.version_answers = version_answers
        self.folder = Path(tempfile.mkdtemp(prefix="kbroker-net-"))
        # as in every log dir: the ways to check the page cache are tried on it
        (self.folder / files.META_PROPERTIES).touch()
        self.config = BrokerConfig(
            {"log.dirs": str(self.folder), "listeners": "PLAINTEXT://127.0.0.1:0", **(settings or {})}
        )
        arena = self.config.get_int("kbroker.arena.bytes")
        self.shared = Shared(Sizes(2, 1, max(256, sum(topics.values())), ring_entries, arena))
        self.folders: dict[int, Path] = {}
        self.image = self._image(topics, internal)
        self.acceptor_end, self._net_end = fds.pair()
        self.control = ControlDouble(self.image, answer)
        self.worker = WorkerDouble(self.shared, self.folders)
        self._ids = 0
        self.pid = 0

    def _image(self, topics: Mapping[str, int], internal: tuple[str, ...]) -> Image:
        images = []
        for number, (name, count) in enumerate(topics.items(), 1):
            parts = tuple(self._partition(name, index) for index in range(count))
            topic_id = number.to_bytes(16, "big")
            images.append(TopicImage(name, topic_id, name in internal, parts))
        return Image(1, True, tuple(images))

    def _partition(self, topic: str, index: int) -> PartitionImage:
        slot = len(self.folders)
        folder = self.folder / f"{topic}-{index}"
        folder.mkdir()
        (folder / f"{0:020}.log").touch()
        self.folders[slot] = folder
        words = self.shared.slots[slot]
        words[Slot.STATE] = SlotState.ONLINE
        words[Slot.GENERATION] = 1
        words[Slot.MAX_MESSAGE_BYTES] = 1048588
        words[Slot.TIMESTAMP_BEFORE_MAX_MS] = (1 << 63) - 1
        words[Slot.TIMESTAMP_AFTER_MAX_MS] = 3_600_000
        words[Slot.COMPRESSION] = -1
        words[Slot.MIN_IN_SYNC_REPLICAS] = 1
        return PartitionImage(index, slot, 1, str(folder))

    def start(self) -> "NetNode":
        self.fork()
        self.control.start()
        self.worker.start()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def fork(self) -> None:
        line = self.shared.processes[0]
        line[ProcessLine.EPOCH] += 1
        line[ProcessLine.SLEEPING] = 0
        context = ChildContext(
            role="network",
            index=0,
            process=0,
            epoch=int(line[ProcessLine.EPOCH]),
            config=self.config,
            shared=self.shared,
            control_sockets=self.control.control_sockets,
            handoff=self._net_end,
            clean_dirs=frozenset(),
            cluster_id="test",
            log_dirs=(),
        )
        parent = os.getpid()
        self.pid = fork()
        if self.pid == 0:
            run_child(context, self.serve, parent)

    def serve(self, context: ChildContext) -> None:
        """The network process's main."""
        net_worker.main(context, self.version_answers, SERVED)

    def wait_ready(self) -> None:
        line = self.shared.processes[0]
        wait_until(lambda: line[ProcessLine.READY] == line[ProcessLine.EPOCH], self.pid, STACK_SIGNAL)

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        """A client's socket; the other end is the network process's."""
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        served, address = listener.accept()
        listener.close()
        client.settimeout(60)
        self._ids += 1
        with served:
            accepted = fds.Accepted(self._ids, 0, host, address[1])
            while not fds.send_connections(self.acceptor_end, [(served.fileno(), accepted)]):
                time.sleep(0.001)
        return client

    def closed_ids(self, count: int, timeout: float = 60) -> list[int]:
        """Ids of connections that the process reported closed."""
        found: list[int] = []
        poll = select.poll()
        poll.register(self.acceptor_end, select.POLLIN)
        while len(found) < count and poll.poll(timeout * 1000):
            reported = fds.receive_closed(self.acceptor_end)
            if isinstance(reported, list):  # else settings, which are sent at the start
                found += [i for i in reported if i != fds.RESTARTED]
        return found

    def wait_for_appends(self, count: int) -> None:
        """Until the network process has put so many batches into the worker's ring."""
        ring = self.shared.append_ring(0, 0)
        eventually(lambda: ring_length(ring) + len(self.worker.batches) >= count)

    def kill(self) -> None:
        exit_code(self.pid, 0)
        self.pid = 0

    def stop(self) -> int:
        code = 0
        if self.pid:
            os.kill(self.pid, STOP_SIGNAL)
            code = exit_code(self.pid, 60)
        self.worker.ended.set()
        self.control.control_sockets.close()
        self.acceptor_end.close()
        self._net_end.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


def ask(link: socket.socket, frame: bytes) -> bytes:
    """Send a frame; the next answer without its size, empty when the connection is closed."""
    link.sendall(frame)
    return read_frame(link)


def read_frame(link: socket.socket) -> bytes:
    """The next answer without its size; empty at the end."""
    head = _read(link, 4)
    return _read(link, struct.unpack(">i", head)[0]) if head else b""


def _read(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            more = link.recv(count - len(data))
        except ConnectionError:
            return b""
        if not more:
            return b""
        data += more
    return data
