"""The compiled parsers of Produce and Fetch by themselves: a frame anywhere in memory, tables as at
a start."""

import shutil
import time
from typing import Final

import numpy as np

from kbroker.ipc.ring import ring_take
from kbroker.kernels.jit import kernel
from kbroker.net.context import Context
from kbroker.net.fetch.request_kernel import plan_request
from kbroker.net.fetch.session_table import SessionTable
from kbroker.net.receive_kernel import _produce
from kbroker.net.rows import Context as ContextRow
from kbroker.net.rows import Flag
from kbroker.net.topics import Topics
from tests.net.doubles import NetNode

CLOSE: Final = 3
MIN_FRAME: Final = 10  # shorter ones never reach the parsers


@kernel("int64(int64, int64, int64, int64, int64)")
def take_produce(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    """What a Produce frame at an address comes to: NEXT, STOP, LATER or CLOSE."""
    return _produce(cx, connection, frame, length, chunk)


@kernel("int64(int64, int64, int64)")
def take_fetch(cx: int, frame: int, length: int) -> int:
    """What a Fetch frame at an address comes to: READY or TO_PYTHON."""
    return plan_request(cx, frame, length)


class Parsers:
    """The tables of a network process that never runs; each call leaves them as it found them."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.node = NetNode(topics)  # not started: it gives the shared memory and an image
        shutil.rmtree(self.node.folder)
        self.context = Context(self.node.shared, 0, self.node.config)
        self._topics = Topics(self.context)
        self._topics.apply(self.node.image.topics, (), True, 1)
        self._sessions = SessionTable(self.context, self._topics, 16)
        self.context.words[ContextRow.NOW_MS] = time.time_ns() // 1_000_000
        self.row = self.context.take_row(-1, Flag.AUTHENTICATED | Flag.FETCH, 0)
        self._out = np.zeros((512, 8), np.int64)
        self._words = self.context.words.copy()
        self._connection = self.context.connections[self.row].copy()
        self._requests = self.context.requests.copy()
        self._results = self.context.results.copy()

    def produce(self, address: int, length: int) -> tuple[int, int, int]:
        """(outcome, partitions found, appends pushed) of the frame at an address."""
        words = self.context.words
        outcome = int(take_produce(self.context.address, self.row, address, length, 0))
        count = int(words[ContextRow.SCAN_COUNT])
        ring = self.node.shared.append_ring(0, 0)
        pushed = int(ring_take(ring, self.node.shared.sizes.ring_entries, self._out))
        assert words[ContextRow.EVENT_COUNT] <= words[ContextRow.EVENT_CAPACITY]
        self.context.requests[:2] = self._requests[:2]
        self.context.results[: count + 2] = self._results[: count + 2]
        self._restore()
        return outcome, count, pushed

    def fetch(self, address: int, length: int) -> tuple[int, int]:
        """(READY or TO_PYTHON, partitions planned) of the frame at an address."""
        outcome = int(take_fetch(self.context.address, address, length))
        planned = int(self.context.words[ContextRow.PLAN_COUNT])
        self._restore()
        return outcome, planned

    def _restore(self) -> None:
        self.context.words[:] = self._words
        self.context.connections[self.row] = self._connection
        self.context.chunks[:] = 0
