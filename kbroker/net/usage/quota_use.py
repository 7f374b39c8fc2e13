"""The clients of a network process that have quotas, and throttled requests, since the last report
to control."""

from typing import Final

from kbroker.config.client_quotas import Bound
from kbroker.ipc.client_messages import Throttled

MAX_CLIENTS: Final = 1000
"""Clients, and quotas, in a report."""
MAX_TEXT: Final = 255
"""Maximum length of a user or client id in a report; clients with longer ones are left out."""


class QuotaUse:
    """Runs in: network. Owner: Quotas."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], None] = {}
        self._throttled: dict[tuple[str, str, str], tuple[int, int]] = {}

    def client_seen(self, user: str, client_id: str) -> None:
        """A client that has quotas has sent a request."""
        if len(self._clients) < MAX_CLIENTS and max(len(user), len(client_id)) <= MAX_TEXT:
            self._clients[user, client_id] = None

    def throttled(self, quota: str, bound: Bound, throttle_ms: int) -> None:
        """A request was throttled."""
        key = quota, bound.user, bound.client_id
        known = self._throttled.get(key)
        if known is not None:
            self._throttled[key] = known[0] + 1, known[1] + throttle_ms
        elif len(self._throttled) < MAX_CLIENTS and max(len(text) for text in key) <= MAX_TEXT:
            self._throttled[key] = 1, throttle_ms

    def take(self) -> tuple[tuple[Throttled, ...], tuple[tuple[str, str], ...]]:
        """Throttled requests, and the clients that were seen; the next report starts empty."""
        throttled, self._throttled = self._throttled, {}
        clients, self._clients = self._clients, {}
        return tuple(Throttled(*key, *counts) for key, counts in throttled.items()), tuple(clients)
