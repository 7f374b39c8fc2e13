"""Sends the acceptor the connection rates of addresses. Host names are resolved here, where a slow
DNS answer blocks no client.

Runs in: the first network process.
"""

import asyncio
import socket

from kbroker.config.client_quotas import CONNECTION_CREATION_RATE, IP, QuotaTable, plain_address
from kbroker.ipc.fds import send_rates
from kbroker.net.accept.connection_rates import DEFAULT
from kbroker.net.accept.news import AcceptorNews, until_sent


class IpRates:
    """Owner: the process's main."""

    def __init__(self, handoff: socket.socket) -> None:
        self._handoff = handoff
        self._news: AcceptorNews[dict[str, float]] = AcceptorNews(self._send)

    def change(self, table: QuotaTable) -> None:
        """Called when quotas have changed."""
        wanted = {
            name or DEFAULT: values[CONNECTION_CREATION_RATE]
            for entity, values in table.quotas.items()
            for kind, name in entity
            if kind == IP and CONNECTION_CREATION_RATE in values
        }
        self._news.change(wanted)

    async def _send(self, wanted: dict[str, float]) -> None:
        rates = {}
        for name, rate in wanted.items():
            rates[name and await _address(name)] = rate
        await until_sent(lambda: send_rates(self._handoff, rates))


async def _address(name: str) -> str:
    """The first address of a name, which was known when the quota was set."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None)
    except OSError:
        return plain_address(name)
    return plain_address(str(found[0][4][0]))
