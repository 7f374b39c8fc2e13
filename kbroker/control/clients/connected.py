"""Connected clients: control requests them from all network processes and adds them up."""

import asyncio
from collections.abc import Iterable
from typing import Final

from kbroker.control.telemetry.points import printable
from kbroker.ipc.client_messages import MAX_LISTED, ConnectedClient, ConnectedClients, ConnectedQuery
from kbroker.ipc.link import AsyncLink, LinkClosed

TIMEOUT_S: Final = 3.0
"""A network process that does not answer in time is left out."""


async def connected_clients(networks: Iterable[AsyncLink]) -> ConnectedClients:
    """The clients of all network processes."""
    answers = await asyncio.gather(*(_of(link) for link in networks))
    return added_up([answer for answer in answers if answer is not None])


async def _of(link: AsyncLink) -> ConnectedClients | None:
    try:
        found: ConnectedClients = await asyncio.wait_for(link.call(ConnectedQuery()), TIMEOUT_S)
    except (LinkClosed, TimeoutError):
        return None
    return found


def added_up(answers: Iterable[ConnectedClients], max_listed: int = MAX_LISTED) -> ConnectedClients:
    """One list of the clients that move the most bytes, then those with the most connections. A
    client whose row one process has left out is counted there."""
    rows: dict[tuple[str, ...], ConnectedClient] = {}
    clients = connections = 0
    for answer in answers:
        clients += answer.left_out
        connections += answer.left_out_connections
        for one in answer.clients:
            key = _key(one)
            before = rows.get(key, ConnectedClient(*key, 0, 0.0, 0.0))
            rows[key] = ConnectedClient(
                *key,
                before.connections + one.connections,
                before.in_bytes_s + one.in_bytes_s,
                before.out_bytes_s + one.out_bytes_s,
            )
    order = sorted(rows.values(), key=lambda one: (-(one.in_bytes_s + one.out_bytes_s), -one.connections))
    others = order[max_listed:]
    return ConnectedClients(
        tuple(order[:max_listed]), clients + len(others), connections + sum(one.connections for one in others)
    )


def _key(one: ConnectedClient) -> tuple[str, str, str, str, str, str]:
    return (
        one.address,
        printable(one.client_id),
        printable(one.software_name),
        printable(one.software_version),
        printable(one.principal),
        one.listener,
    )
