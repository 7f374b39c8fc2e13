"""Updates that the first network process sends to the acceptor: its dynamic settings, and changes
of connection rates. A send is retried while the channel is full.

Runs in: the first network process. After a restart its successor sends everything again.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice

from kbroker.config.broker_values import base_name
from kbroker.config.client_quotas import (
    CONNECTION_CREATION_RATE,
    IP,
    QuotaTable,
    is_address,
    plain_address,
)
from kbroker.ipc.fds import RATES_PER_MESSAGE, send_rates, send_settings
from kbroker.net.accept.connection_rates import DEFAULT

RETRY_SECONDS = 0.05
NAMES = {
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
}


async def until_sent(send: Callable[[], bool]) -> None:
    """Retry until sent. send: returns False while the channel is full, raises EOFError when the
    acceptor has ended."""
    with suppress(EOFError):
        while not send():
            await asyncio.sleep(RETRY_SECONDS)


class AcceptorSettings:
    """Sends the dynamic settings that the acceptor needs: the connection limits. Owner: Images.

    The first ones are always sent: a predecessor of this process may have sent different ones."""

    def __init__(self, handoff: socket.socket) -> None:
        self._handoff = handoff
        self._sent: dict[str, str] | None = None
        self._task: asyncio.Task[None] | None = None

    def change(self, settings: Mapping[str, str]) -> None:
        """Called when dynamic settings have changed: by name, and for listeners by prefixed name. A
        send of older ones that is still in progress is cancelled."""
        kept = {name: value for name, value in settings.items() if base_name(name) in NAMES}
        if kept == self._sent:
            return
        self._sent = kept
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._send(kept))

    async def _send(self, kept: dict[str, str]) -> None:
        await until_sent(lambda: send_settings(self._handoff, kept))


class IpRates:
    """Sends changes of the connection rates of addresses, in small messages.
    Owner: Images. Host names are resolved here, where a slow DNS answer blocks no client."""

    def __init__(self, handoff: socket.socket) -> None:
        self._handoff = handoff
        self._unsent: dict[str, float | None] = {}
        self._first = False
        self._task: asyncio.Task[None] | None = None

    def change(self, changed: QuotaTable, full: bool) -> None:
        """Called when quotas have changed. full: forget all others."""
        if full:
            self._unsent.clear()
            self._first = True
        for entity, values in changed.quotas.items():
            for kind, name in entity:
                if kind == IP:
                    self._unsent.pop(name or DEFAULT, None)
                    self._unsent[name or DEFAULT] = values.get(CONNECTION_CREATION_RATE)
        if (self._unsent or self._first) and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._unsent or self._first:
            some = dict(islice(self._unsent.items(), RATES_PER_MESSAGE))
            for name in some:
                del self._unsent[name]
            first, self._first = self._first, False
            rates = {await _address(name) if name else name: rate for name, rate in some.items()}
            await until_sent(partial(send_rates, self._handoff, rates, first))
            await asyncio.sleep(0)


async def _address(name: str) -> str:
    """The first address of a name, which was known when the quota was set."""
    if is_address(name):
        return plain_address(name)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None)
    except OSError:
        return plain_address(name)
    return plain_address(str(found[0][4][0]))
