"""The clients of a network process's open connections, read from its tables when control requests
them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.client_messages import MAX_LISTED, ConnectedClient, ConnectedClients
from kbroker.net.connections.connection import Connection

AT_ONCE: Final = 250
"""Connections that are read between two turns of the event loop: some 0.3 ms."""
MAX_PRINCIPAL: Final = 256
"""Maximum length of a principal in a report."""

Rates = Callable[[Sequence[int]], NDArray[np.float64]]
"""Bytes per second of rows, received and sent."""
Key = tuple[str, str, str, str, str, str]
"""Address, client id, software name and version, principal, listener."""


async def connected_clients(connections: Sequence[Connection], rates: Rates) -> ConnectedClients:
    """The clients that move the most bytes, then those with the most connections; the others are
    counted. In pieces, so that no client waits for it."""
    numbers: dict[Key, int] = {}
    sums: list[list[float]] = []  # connections, bytes received and sent per second
    for at in range(0, len(connections), AT_ONCE):
        piece = [one for one in connections[at : at + AT_ONCE] if not one.is_closed()]
        for connection, (received, sent) in zip(
            piece, rates([one.row for one in piece]).tolist(), strict=True
        ):
            number = numbers.setdefault(_key(connection), len(sums))
            if number == len(sums):
                sums.append([0, 0.0, 0.0])
            row = sums[number]
            row[0] += 1
            row[1] += received
            row[2] += sent
        await asyncio.sleep(0)
    return _largest(list(numbers), np.array(sums, np.float64).reshape(-1, 3))


def _key(connection: Connection) -> Key:
    return (
        connection.accepted.host,
        connection.bytes_of or "",
        connection.software_name,
        connection.software_version,
        connection.principal[:MAX_PRINCIPAL],
        connection.listener.listener,
    )


def _largest(keys: Sequence[Key], sums: NDArray[np.float64]) -> ConnectedClients:
    order = np.lexsort((-sums[:, 0], -(sums[:, 1] + sums[:, 2])))
    shown, others = order[:MAX_LISTED].tolist(), order[MAX_LISTED:]
    clients = [_client(keys[number], *sums[number].tolist()) for number in shown]
    return ConnectedClients(tuple(clients), len(others), int(sums[others, 0].sum()))


def _client(key: Key, connections: float, received: float, sent: float) -> ConnectedClient:
    return ConnectedClient(*key, int(connections), received, sent)
