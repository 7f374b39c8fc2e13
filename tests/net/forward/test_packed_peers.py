"""Where kernels find the peer of a connection."""

import ctypes

import pytest

from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.ipc.fds import Accepted
from kbroker.net.connection import Connection
from kbroker.net.forward.forwarding import PLACE_BYTES, PLACES, PackedPeers


def connection(row: int) -> Connection:
    listener = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 0)
    return Connection(Accepted(row + 1, 0, "127.0.0.1", 5000), 9, row, listener)


@pytest.mark.parametrize("size", [1, PLACE_BYTES - 1, PLACE_BYTES, PLACE_BYTES + 1, 40_000])
def test_each_row_keeps_its_own(size: int) -> None:
    peers = PackedPeers()
    rows = [connection(row) for row in (0, 1, PLACES - 1, PLACES, 7 * PLACES + 3)]
    packed = [bytes([number + 1]) * size for number in range(len(rows))]
    places = [peers.put(*each) for each in zip(rows, packed, strict=True)]
    assert [ctypes.string_at(place, size) for place in places] == packed


def test_the_peer_of_a_row_may_become_longer_and_shorter() -> None:
    peers, first, second = PackedPeers(), connection(4), connection(5)
    beside = peers.put(second, b"b" * PLACE_BYTES)
    for size in (3, PLACE_BYTES, 5000, 2):
        assert ctypes.string_at(peers.put(first, b"a" * size), size) == b"a" * size
    assert ctypes.string_at(beside, PLACE_BYTES) == b"b" * PLACE_BYTES
