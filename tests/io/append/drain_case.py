"""A drain with one open partition and one client, for tests: push batches, run, look at the
answers."""

import os
import struct
from pathlib import Path

import numpy as np

from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import AppendEntry, Completion, Operation, Slot, SlotState
from kbroker.ipc.ring import ring_push, ring_take
from kbroker.ipc.shared import Shared, Sizes
from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb

CAPACITY = 64
NEVER = 1 << 62


def batch(
    records: int = 1,
    payload: bytes = b"x" * 10,
    timestamp: int = 1000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytes:
    """A batch whose records section is opaque; producer is (id, epoch, base sequence)."""
    tail = (
        struct.pack(">hiqqqhii", attributes, records - 1, timestamp, timestamp, *producer, records) + payload
    )
    head = struct.pack(">qiib", 0, 9 + len(tail), -1, 2)
    return head + struct.pack(">I", crc32c(tail)) + tail


class DrainCase:
    """Slot 3 of generation 7 on worker 0; client 0 is the sender, the last one is control."""

    slot = 3

    def __init__(self, folder: Path, clients: int = 2, partitions: int = 16) -> None:
        self.shared = Shared(
            Sizes(
                clients=clients,
                workers=1,
                max_partitions=partitions,
                ring_entries=CAPACITY,
                arena_bytes=1 << 20,
            )
        )
        self.drain = Drain(self.shared, 0, producers=16)
        self.folder = folder
        self.row = self.drain.rows[self.slot]
        self.words = self.shared.slots[self.slot]
        self.words[Slot.STATE] = SlotState.ONLINE
        self.words[Slot.GENERATION] = 7
        names = {AppendRow.LOG_FD: "log", AppendRow.INDEX_FD: "index", AppendRow.TIME_INDEX_FD: "timeindex"}
        for word, name in names.items():
            self.row[word] = os.open(folder / name, os.O_RDWR | os.O_CREAT)
        defaults = {
            AppendRow.STATE: 1, AppendRow.MAX_TIMESTAMP: -1, AppendRow.LAST_INDEXED_TIMESTAMP: -1,
            AppendRow.INDEX_INTERVAL: 4096,
            AppendRow.SEGMENT_BYTES: 1 << 20, AppendRow.INDEX_LIMIT: 1 << 20, AppendRow.ROLL_AT_MS: NEVER,
            AppendRow.FIRST_TIMESTAMP: -1, AppendRow.FLUSH_RECORDS: NEVER, AppendRow.FIRST_UNSTABLE: -1,
            AppendRow.SEGMENT_MS: NEVER,
        }  # fmt: skip
        for word, value in defaults.items():
            self.row[word] = value
        self._arena_used = [0] * clients
        self._next_token = 1

    def push(self, data: bytes, acks: int = 1, generation: int = 7, client: int = 0) -> int:
        """Put a batch into a client's arena and ring; returns its token."""
        start = self._arena_used[client]
        self.shared.arenas[client].bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self._arena_used[client] = start + len(data)
        token = self._next_token
        self._next_token += 1
        packed = (30_000 << 16) | (acks & 0xFFFF)
        entry = np.array(
            [Operation.APPEND, self.slot, generation, start, len(data), token, packed, 0], np.int64
        )
        assert ring_push(self.shared.append_ring(client, 0), CAPACITY, entry)
        return token

    def answers(self, client: int = 0) -> list[list[int]]:
        """Completions that arrived: lists of COMPLETION_* words."""
        out = AppendEntry.table(CAPACITY)
        count = ring_take(self.shared.completion_ring(client, 0), CAPACITY, out)
        answers: list[list[int]] = out[:count].tolist()
        return answers

    def outcomes(self, client: int = 0) -> list[tuple[int, int, int]]:
        """(token, error, base offset) of each completion."""
        return [(a[0], a[Completion.ERROR], a[Completion.BASE_OFFSET]) for a in self.answers(client)]

    def file(self, name: str) -> bytes:
        """What was written to log, index or timeindex."""
        return (self.folder / name).read_bytes()


def header(log: bytes, position: int = 0) -> tuple[int, int, int, int]:
    """(base offset, length, leader epoch, crc ok) of the batch at a position."""
    base, length, epoch, _magic, crc = struct.unpack_from(">qiibI", log, position)
    good = crc == crc32c(log[position + rb.ATTRIBUTES : position + length + rb.LENGTH_OVERHEAD])
    return base, length + rb.LENGTH_OVERHEAD, epoch, good
