"""Append entries of transactional batches and markers."""

import itertools
import struct

import numpy as np

from kbroker.io.append.drain import MarkerAppend
from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Operation
from kbroker.ipc.ring import ring_push
from kbroker.protocol import batch_layout as rb
from tests.io.append.drain_case import CAPACITY, DrainCase, batch

TRANSACTIONAL = rb.ATTRIBUTE_TRANSACTIONAL
CONTROL_CLIENT = 1
PLACES = itertools.count(0, 4096)


def push(case: DrainCase, data: bytes, operation: int = Operation.APPEND, client: int = 0) -> int:
    """Append by an operation; returns the token."""
    arena = case.shared.arenas[client].bytes
    start = next(PLACES) % (1 << 19)
    arena[start : start + len(data)] = np.frombuffer(data, np.uint8)
    entry = [operation, case.slot, 7, start, len(data), start + 1, (30_000 << 16) | 1, 0]
    assert ring_push(case.shared.append_ring(client, 0), CAPACITY, np.array(entry, np.int64))
    return start + 1


def data(
    sequence: int = 0,
    epoch: int = 0,
    verified_at: int = 0,
    attributes: int = TRANSACTIONAL,
    producer_id: int = 77,
) -> bytes:
    made = batch(producer=(producer_id, epoch, sequence), attributes=attributes)
    return struct.pack(">q", verified_at) + made[8:]


def finish(case: DrainCase) -> None:
    """End the transaction of the marker that is held, as the worker does."""
    (held,) = case.drain.held()
    assert isinstance(held, MarkerAppend)
    assert held.marker is not None
    case.drain.producers.end_transaction(case.slot, held.marker)
    case.row[AppendRow.FIRST_UNSTABLE] = -1
