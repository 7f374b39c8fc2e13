"""Server-sent events: a bounded number of streams, each in the thread of its connection."""

import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kbroker.config.client_network import network_of
from kbroker.http.console.live import Live
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.messages import Tail
from kbroker.http.console.views.overview import shown
from kbroker.http.console.visible import Visible

MAX_STREAMS = 16
SEND_S = 10.0
"""A client that takes longer to read one event is disconnected."""
MIN_S = 10.0
"""A stream keeps its slot for at least this time, even if others wait."""
MAX_S = 3600.0
"""Maximum age of a stream. The page reconnects."""
KEEP_ALIVE_S = 15.0
TAIL_S = 0.5


class StreamSlot:
    """The slot of one stream. peer: network of its client. has_ended: it has given way to
    another."""

    def __init__(self, peer: str, now_s: float) -> None:
        self.peer = peer
        self.began_s = now_s
        self.has_ended = False


class Streams:
    """Runs in: http. Owner: the console. Thread-safe.

    No stream excludes others for long: when there is no room, a stream that had its slot for
    MIN_S gives way: one of the address that has most of them, and of those the oldest."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._slots: list[StreamSlot] = []  # the oldest first
        self._lock = threading.Lock()

    def enter(self, peer: str) -> StreamSlot | None:
        """Take a slot; `leave` frees it. None if there is none."""
        now = self._clock_s()
        with self._lock:
            if len(self._slots) >= MAX_STREAMS and not self._make_room(now):
                return None
            slot = StreamSlot(network_of(peer), now)
            self._slots.append(slot)
            return slot

    def leave(self, slot: StreamSlot) -> None:
        """A stream has ended."""
        with self._lock:
            if slot in self._slots:
                self._slots.remove(slot)

    def _make_room(self, now_s: float) -> bool:
        counts = Counter(slot.peer for slot in self._slots)
        late = [slot for slot in self._slots if now_s - slot.began_s >= MIN_S]
        if not late:
            return False
        victim = min(late, key=lambda slot: -counts[slot.peer])
        victim.has_ended = True
        self._slots.remove(victim)
        return True


def event(name: str, data: Any) -> bytes:
    """One event of the stream."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def samples(live: Live, visible: Visible) -> Iterator[bytes]:
    """Each new sample of the overview, about one a second."""
    yield b"retry: 2000\n\n"
    yield event("sample", shown(live.latest(), visible))
    seen = live.number
    while True:
        live.mark_watched()
        with live.changed:
            changed = live.changed.wait_for(lambda: live.number != seen, KEEP_ALIVE_S)  # noqa: B023
            seen = live.number
        yield event("sample", shown(live.latest(), visible)) if changed else b": nothing new\n\n"


def tail(request: Request) -> Callable[[], Iterator[bytes]]:
    """New messages of a topic. Raises Refusal before the stream begins."""
    follower = Tail(request)

    def run() -> Iterator[bytes]:
        yield b"retry: 2000\n\n"
        quiet_since = time.monotonic()
        while True:
            try:
                records, left_out = follower.take()
            except Refusal as refusal:
                found = {"error": refusal.code, "message": refusal.text, "status": int(refusal.status)}
                yield event("refused", found)
                return
            if records:
                yield event("records", {"records": records, "left_out": left_out})
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > KEEP_ALIVE_S:
                quiet_since = time.monotonic()
                yield b": nothing new\n\n"
            else:
                yield b""
            time.sleep(TAIL_S)

    return run


def send(
    connection: socket.socket, events: Iterator[bytes], slot: StreamSlot, is_allowed: Callable[[], bool]
) -> None:
    """Send until the client disconnects or stops reading, or the stream reaches its maximum age,
    gives way to another or is no longer allowed, which is checked before each event. Raises
    OSError."""
    ends = time.monotonic() + MAX_S
    for data in events:
        if time.monotonic() > ends or slot.has_ended or _is_gone(connection) or not is_allowed():
            return
        if data:
            connection.settimeout(SEND_S)  # of the whole event: over TLS, too, sendall has one deadline
            connection.sendall(data)


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has disconnected: it sends nothing, so a readable socket is at its end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
