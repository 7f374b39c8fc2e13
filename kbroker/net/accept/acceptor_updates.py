"""Updates that the first network process sends to the acceptor: its dynamic settings, and changes
of connection rates. A send is retried while the channel is full.

Runs in: the first network process. After a restart its successor sends everything again.
"""

import asyncio
import logging
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
from kbroker.net.accept.connection_limits import PER_IP_OVERRIDES
from kbroker.net.accept.connection_rates import DEFAULT

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.05
RESOLVED_IN_S = 5.0
"""All host names of a setting."""
MAX_TEXT_BYTES = 48 << 10
"""Maximum of one setting with addresses: it fits into a message."""
SHOWN = 5
NAMES = {
    "max.connections",
    "max.connections.per.ip",
    PER_IP_OVERRIDES,
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
    Host names are resolved here: the acceptor takes no connection while it waits.

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
        if PER_IP_OVERRIDES in kept:
            kept = {**kept, PER_IP_OVERRIDES: await _with_addresses(kept[PER_IP_OVERRIDES])}
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


async def _with_addresses(text: str) -> str:
    """host:count pairs with the addresses of each host. A name that has none, or none in time,
    stays as it is."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + RESOLVED_IN_S
    found: list[str] = []
    unknown: list[str] = []
    left = MAX_TEXT_BYTES
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        name = host.strip().strip("[]")
        addresses = await _addresses(name, ends_s)
        if not addresses:
            unknown.append(name)
        pairs = [f"[{each}]:{count}" if ":" in each else f"{each}:{count}" for each in addresses or [name]]
        left -= sum(len(pair) + 1 for pair in pairs)
        if left < 0:
            log.warning("%s: too many addresses, those from %s on have no limit", PER_IP_OVERRIDES, name)
            break
        found += pairs
    if unknown:
        log.warning("%s: without an address: %s", PER_IP_OVERRIDES, ", ".join(unknown[:SHOWN]))
    return ",".join(found)


async def _addresses(name: str, ends_s: float) -> list[str]:
    """All addresses of a name."""
    if is_address(name):
        return [plain_address(name)]
    loop = asyncio.get_running_loop()
    if loop.time() >= ends_s:
        return []
    try:
        async with asyncio.timeout_at(ends_s):
            found = await loop.getaddrinfo(name, None)
    except (OSError, UnicodeError):  # of a name such as a..b
        return []
    return sorted({plain_address(str(each[4][0])) for each in found})


async def _address(name: str) -> str:
    """The first address of a name, which was known when the quota was set."""
    if is_address(name):
        return plain_address(name)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None)
    except OSError:
        return plain_address(name)
    return plain_address(str(found[0][4][0]))
