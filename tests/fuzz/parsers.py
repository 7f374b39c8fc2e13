"""The compiled parsers of Produce and Fetch by themselves: a frame anywhere in memory, tables as at
a start."""

import shutil
import time
from typing import Final

import numpy as np

from kbroker.ipc.ring import ring_take
from kbroker.kernels.jit import kernel
from kbroker.net.fetch.request_kernel import plan_request
from kbroker.net.fetch.session_table import SessionTable
from kbroker.net.network_tables import NetworkTables
from kbroker.net.receive_kernel import _produce
from kbroker.net.rows import Context, Flag
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.topics import Topics
from tests.net.doubles import NetNode

CLOSE: Final = 3
MIN_FRAME: Final = 10  # shorter ones never reach the parsers


@kernel("int64(int64, int64, int64, int64, int64)")
def take_produce(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    """What a Produce frame at an address comes to: NEXT, STOP, LATER or CLOSE."""
    return _produce(cx, connection, frame, length, chunk)


@kernel("int64(int64, int64, int64, int64)")
def take_fetch(cx: int, connection: int, frame: int, length: int) -> int:
    """What a Fetch frame at an address comes to: READY or TO_PYTHON."""
    return plan_request(cx, connection_row(cx, connection), frame, length)


class Parsers:
    """The tables of a network process that never runs; each call leaves them as it found them."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.node = NetNode(topics)  # not started: it gives the shared memory and an image
        shutil.rmtree(self.node.folder)
        self.tables = NetworkTables(self.node.shared, 0, self.node.config)
        self._topics = Topics(self.tables)
        self._topics.apply(self.node.image.topics, (), True, 1)
        self._sessions = SessionTable(self.tables, self._topics, 16)
        self.tables.words[Context.NOW_MS] = time.time_ns() // 1_000_000
        self.row = self.tables.take_row(-1, Flag.AUTHENTICATED | Flag.FETCH, 0)
        self._out = np.zeros((512, 8), np.int64)
        self._words = self.tables.words.copy()
        self._connection = self.tables.connections[self.row].copy()
        self._requests = self.tables.requests.copy()
        self._results = self.tables.results.copy()

    def produce(self, address: int, length: int) -> tuple[int, int, int]:
        """(outcome, partitions found, appends pushed) of the frame at an address."""
        words = self.tables.words
        outcome = int(take_produce(self.tables.address, self.row, address, length, 0))
        count = int(words[Context.SCAN_COUNT])
        ring = self.node.shared.append_ring(0, 0)
        pushed = int(ring_take(ring, self.node.shared.sizes.ring_entries, self._out))
        assert words[Context.EVENT_COUNT] <= words[Context.EVENT_CAPACITY]
        self.tables.requests[:2] = self._requests[:2]
        self.tables.results[: count + 2] = self._results[: count + 2]
        self._restore()
        return outcome, count, pushed

    def fetch(self, address: int, length: int) -> tuple[int, int]:
        """(READY or TO_PYTHON, partitions planned) of the frame at an address."""
        outcome = int(take_fetch(self.tables.address, self.row, address, length))
        planned = int(self.tables.words[Context.PLAN_COUNT])
        self._restore()
        return outcome, planned

    def _restore(self) -> None:
        self.tables.words[:] = self._words
        self.tables.connections[self.row] = self._connection
        self.tables.chunks[:] = 0
