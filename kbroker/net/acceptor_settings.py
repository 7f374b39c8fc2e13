"""Tells the acceptor the dynamic settings it keeps to: how many connections there may be.

Runs in: the first network process, whose successor tells them again.
"""

import asyncio
import socket
from collections.abc import Mapping

from kbroker.config.broker import base_name
from kbroker.ipc.fds import send_settings

RETRY_SECONDS = 0.05
KEPT_TO = {
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
}


class AcceptorSettings:
    """Owner: the process's main."""

    def __init__(self, handoff: socket.socket) -> None:
        self._handoff = handoff
        self._told: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def change(self, settings: Mapping[str, str]) -> None:
        """There are other dynamic settings now, by name and for listeners by prefixed name."""
        wanted = {name: value for name, value in settings.items() if base_name(name) in KEPT_TO}
        if wanted == self._told:
            return
        self._told = wanted
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._tell(wanted))

    async def _tell(self, wanted: dict[str, str]) -> None:
        while not send_settings(self._handoff, wanted):
            await asyncio.sleep(RETRY_SECONDS)
