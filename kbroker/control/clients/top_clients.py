"""Bytes by client id: the busiest ones have counters of their own, the rest is one."""

from typing import Final

from msgspec import Struct

from kbroker.control.telemetry.points import printable
from kbroker.ipc.client_messages import OTHER, MovedBytes

MAX_CLIENTS: Final = 50
MAX_OTHERS: Final = 1000
"""Maximum of client ids without a counter whose bytes are compared."""
ROUND_MS: Final = 60_000
MARGIN: Final = 2
"""A client takes the counter of another if it moved this many times its bytes in a round."""


class Moved(Struct):
    """A counter. lately: bytes of this round, in both directions."""

    received: int = 0
    sent: int = 0
    lately: int = 0


class TopClients:
    """Runs in: control. Owner: ClientReports.

    No counter ever falls: a client id that gets one begins at 0, and what it moved before stays in
    OTHER. One that has lost it begins at 0 again.
    """

    def __init__(self, max_clients: int = MAX_CLIENTS) -> None:
        self._max_clients = max_clients
        self._shown: dict[str, Moved] = {}
        self._other = Moved()
        self._others: dict[str, int] = {}  # bytes of this round
        self._ends_ms: int | None = None

    def add(self, moved: MovedBytes, now_ms: int) -> None:
        """Clients with this id have moved bytes."""
        self._check_round(now_ms)
        name, both = printable(moved.client_id), moved.received + moved.sent
        found = self._shown.get(name)
        if found is None and name != OTHER and len(self._shown) < self._max_clients:
            found = self._shown[name] = Moved()
        if found is None:
            found = self._other
            if name != OTHER and (name in self._others or len(self._others) < MAX_OTHERS):
                self._others[name] = self._others.get(name, 0) + both
        found.received += moved.received
        found.sent += moved.sent
        found.lately += both

    def all(self) -> tuple[MovedBytes, ...]:
        """Every counter."""
        counters = {**self._shown, OTHER: self._other}
        return tuple(MovedBytes(name, each.received, each.sent) for name, each in counters.items())

    def _check_round(self, now_ms: int) -> None:
        if self._ends_ms is None:
            self._ends_ms = now_ms + ROUND_MS
        if now_ms < self._ends_ms:
            return
        self._ends_ms = now_ms + ROUND_MS
        busiest = sorted(self._others.items(), key=lambda item: -item[1])
        quietest = sorted(self._shown.items(), key=lambda item: item[1].lately)
        for (name, lately), (victim, moved) in zip(busiest, quietest, strict=False):
            if lately <= MARGIN * moved.lately:
                break
            del self._shown[victim]
            self._shown[name] = Moved()
        self._others.clear()
        for each in self._shown.values():
            each.lately = 0
