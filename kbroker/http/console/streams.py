"""Server-sent events: a bounded number of streams, each in the thread of its connection."""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kbroker.http.console.live import Live
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.messages import Tail
from kbroker.http.console.views.overview import shown

MAX_STREAMS = 16
SEND_S = 10.0
"""A client that reads nothing for this time is disconnected."""
MAX_S = 3600.0
"""Maximum age of a stream. The page reconnects, which checks its session again."""
KEEP_ALIVE_S = 15.0
TAIL_S = 0.5


class Streams:
    """Runs in: http. Owner: the console."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(MAX_STREAMS)

    def enter(self) -> bool:
        """Take a place; `leave` frees it."""
        return self._room.acquire(blocking=False)

    def leave(self) -> None:
        """A stream has ended."""
        self._room.release()


def event(name: str, data: Any) -> bytes:
    """One event of the stream."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def samples(live: Live) -> Iterator[bytes]:
    """Each new sample of the overview, about one a second."""
    yield b"retry: 2000\n\n"
    yield event("sample", shown(live.latest()))
    seen = live.number
    while True:
        live.looked()
        with live.changed:
            changed = live.changed.wait_for(lambda: live.number != seen, KEEP_ALIVE_S)  # noqa: B023
            seen = live.number
        yield event("sample", shown(live.latest())) if changed else b": nothing new\n\n"


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
                yield event("refused", {"error": refusal.code, "message": refusal.text})
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


def send(connection: socket.socket, events: Iterator[bytes]) -> None:
    """Send until the client disconnects or stops reading, or the stream reaches its maximum age."""
    ends = time.monotonic() + MAX_S
    connection.settimeout(SEND_S)
    for data in events:
        if time.monotonic() > ends or _is_gone(connection):
            return
        if data:
            connection.sendall(data)


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has disconnected: it sends nothing, so a readable socket is at its end."""
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable)
