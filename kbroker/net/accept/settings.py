"""Sends the acceptor the dynamic settings that it needs: the connection limits.

Runs in: the first network process.
"""

import socket
from collections.abc import Mapping

from kbroker.config.broker_values import base_name
from kbroker.ipc.fds import send_settings
from kbroker.net.accept.news import AcceptorNews, until_sent

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
        self._news: AcceptorNews[dict[str, str]] = AcceptorNews(self._send)

    def change(self, settings: Mapping[str, str]) -> None:
        """Called when dynamic settings have changed: by name, and for listeners by prefixed
        name."""
        self._news.change({name: value for name, value in settings.items() if base_name(name) in KEPT_TO})

    async def _send(self, wanted: dict[str, str]) -> None:
        await until_sent(lambda: send_settings(self._handoff, wanted))
