"""The kernels of a network process and an IO worker in one process, without the rest of a broker:
the CPU of the same requests differs little from turn to turn."""

import os
import socket
import time
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.config.broker import BrokerConfig
from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.ipc.shared import Shared, Sizes
from kbroker.kernels.libc import Epoll
from kbroker.log import files
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.net.fetch.read_table import ReadTable
from kbroker.net.fetch.senders import Senders
from kbroker.net.fetch.session_table import SessionTable
from kbroker.net.network_tables import NetworkTables
from kbroker.net.pump_kernel import OWN_EVENT_FD, pump, register
from kbroker.net.rows import Access, Context, Flag, Grant, May
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.topics import Topics
from kbroker.protocol.records import build_batch
from tests.net.requests import TOPIC_ID, fetch_frame, now_ms, produce_frame

CONNECTIONS: Final = 50
PARTITIONS: Final = 8
GENERATION: Final = 1
NEVER: Final = 1 << 62
ANSWER_BYTES: Final = 1 << 16
MINUS_ONE: Final = (
    AppendRow.MAX_TIMESTAMP,
    AppendRow.LAST_INDEXED_TIMESTAMP,
    AppendRow.FIRST_TIMESTAMP,
    AppendRow.FIRST_UNSTABLE,
)
UNLIMITED: Final = (
    AppendRow.INDEX_INTERVAL,
    AppendRow.SEGMENT_BYTES,
    AppendRow.INDEX_LIMIT,
    AppendRow.ROLL_AT_MS,
    AppendRow.FLUSH_RECORDS,
    AppendRow.SEGMENT_MS,
)
Words = NDArray[np.int64]


def frames_of(work: str) -> list[bytes]:
    """The requests that each connection sends in a turn of a scenario, by its name."""
    if work == "fetch_4k":
        return [fetch_frame(n, 16, partition=PARTITIONS, max_bytes=100) for n in range(CONNECTIONS)]
    in_flight = int(work.rpartition("x")[2])
    data = build_batch([(None, bytes(100), (), now_ms())])
    return [produce_frame(data, 12, partition=n % PARTITIONS) * in_flight for n in range(CONNECTIONS)]


class HotPath:
    """A topic t: 8 partitions that are written, to /dev/null, and a last one that is read, from a
    file in the folder. with_acls: the clients have a grant that allows everything."""

    def __init__(self, folder: Path, with_acls: bool = False) -> None:
        self.shared = Shared(Sizes(2, 1, 64, 1024, 64 << 20))
        self.tables = NetworkTables(self.shared, 0, BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"}))
        self.drain = Drain(self.shared, 0)
        self._topics = Topics(self.tables)
        self._reads = ReadTable(self.tables, Senders(self.tables))
        self._sessions = SessionTable(self.tables, self._topics, 10, seed=1)
        self.tables.words[Context.PROBE] = 1
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(PARTITIONS + 1):
            self._open_slot(number)
            self._open_row(number, null)
        self._write_log(folder)
        parts = (PartitionImage(n, n, GENERATION, str(folder)) for n in range(PARTITIONS + 1))
        self._topics.apply([TopicImage("t", TOPIC_ID, False, tuple(parts))], (), True, 1)
        self._access = self._make_access() if with_acls else None
        if with_acls:
            self.grant(May.WRITE | May.READ | May.DESCRIBE)
        self.clients = [self._connect() for _ in range(CONNECTIONS)]
        self._register(int(self.tables.words[Context.EVENT_FD]), Epoll.IN | Epoll.ET, OWN_EVENT_FD)

    def _write_log(self, folder: Path) -> None:
        """The partition that is read: a batch for each connection."""
        batches = [build_batch([(None, bytes(100), (), 1)], base_offset=n) for n in range(CONNECTIONS)]
        Path(files.path(str(folder), 0, files.LOG)).write_bytes(b"".join(batches))
        Path(files.path(str(folder), 0, files.INDEX)).touch()
        words = self.shared.slots[PARTITIONS]
        words[[Slot.LOG_END, Slot.HIGH_WATERMARK, Slot.LAST_STABLE]] = CONNECTIONS
        words[Slot.HW_POSITION] = sum(map(len, batches))
        self._reader = LogReader(str(folder), OpenFiles())
        self._reads.note(PARTITIONS, GENERATION, int(words[Slot.SEGMENTS_VERSION]), self._reader, 0)

    def _open_slot(self, number: int) -> None:
        words = self.shared.slots[number]
        words[Slot.STATE] = SlotState.ONLINE
        words[Slot.GENERATION] = GENERATION
        words[Slot.SEGMENTS_VERSION] = 2
        words[Slot.LAST_ABORTED] = words[Slot.COMPRESSION] = -1
        words[Slot.MAX_MESSAGE_BYTES] = 1 << 20
        words[Slot.TIMESTAMP_BEFORE_MAX_MS] = words[Slot.TIMESTAMP_AFTER_MAX_MS] = NEVER
        words[Slot.MIN_IN_SYNC_REPLICAS] = 1

    def _open_row(self, number: int, fd: int) -> None:
        row = self.drain.rows[number]
        row[[AppendRow.LOG_FD, AppendRow.INDEX_FD, AppendRow.TIME_INDEX_FD]] = fd
        row[list(MINUS_ONE)] = -1
        row[list(UNLIMITED)] = NEVER
        row[AppendRow.STATE] = 1

    def _make_access(self) -> Words:
        """The permissions of all clients."""
        self._bits: NDArray[np.uint8] = np.zeros(self._topics.capacity, np.uint8)
        self._grant: Words = Grant.row()
        self._grant[Grant.TOPICS] = self._bits.ctypes.data
        access: Words = Access.row()
        access[Access.GRANT] = self._grant.ctypes.data
        return access

    def grant(self, bits: int) -> None:
        """Set what the clients may do to the topic."""
        self._bits[:] = bits

    def _connect(self) -> socket.socket:
        client, served = socket.socketpair()
        served.setblocking(False)
        fd = served.detach()
        row = self.tables.take_row(fd, Flag.AUTHENTICATED | Flag.FETCH, time.monotonic_ns())
        words = self.tables.connections[row]
        words[ConnectionRow.ARMED] = Epoll.READING
        if self._access is not None:
            words[ConnectionRow.ACCESS] = self._access.ctypes.data
        self._register(fd, Epoll.READING, row)
        return client

    def _register(self, fd: int, mask: int, data: int) -> None:
        if register(self.tables.address, fd, mask, data) != 0:
            raise OSError(f"epoll refused descriptor {fd}")

    def turn(self, frames: list[bytes]) -> tuple[int, list[bytes]]:
        """ns of CPU of the kernels that serve what each connection sends, and what each receives.
        Raises RuntimeError if they leave something to Python."""
        for client, frame in zip(self.clients, frames, strict=True):
            client.send(frame)
        began = time.thread_time_ns()
        events = pump(self.tables.address)
        if self.drain.run():
            events += pump(self.tables.address)
        took = time.thread_time_ns() - began
        if events:
            raise RuntimeError(f"{events} events for Python")
        return took, [client.recv(ANSWER_BYTES) for client in self.clients]
