"""Packed peers of connections, where kernels read them.

Runs in: network. Owner: Forwarding. A connection has a peer from its start, and may change it.
Short peers share an array.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.net.connection import Connection

PLACE_BYTES: Final = 256
PLACES: Final = 1024
"""Places in a slab. Slabs are made when rows need them, and never move."""


class PackedPeers:
    """Places for the peers of connection rows."""

    def __init__(self) -> None:
        self._slabs: dict[int, tuple[int, memoryview, NDArray[np.uint8]]] = {}

    def put(self, connection: Connection, packed: bytes) -> int:
        """Store the peer that the connection's requests begin with from now on; returns its
        address, which is valid until the next call for this connection or row."""
        size = len(packed)
        if size > PLACE_BYTES:
            connection.long_peer = np.frombuffer(packed, np.uint8)
            return int(connection.long_peer.ctypes.data)
        number, place = divmod(connection.row, PLACES)
        address, content, _ = self._slabs.get(number) or self._new_slab(number)
        start = place * PLACE_BYTES
        content[start : start + size] = packed
        return address + start

    def _new_slab(self, number: int) -> tuple[int, memoryview, NDArray[np.uint8]]:
        memory: NDArray[np.uint8] = np.zeros(PLACES * PLACE_BYTES, np.uint8)
        made = self._slabs[number] = int(memory.ctypes.data), memory.data, memory
        return made
