"""Writes the audit log.

The event loop encodes each line and queues it; it never waits for the disk. A thread appends the
queued lines and syncs them at most once a second. While the disk fails, the lines stay in the
queue. Lines beyond MAX_QUEUED_BYTES are dropped and counted, and the count becomes a line later.
"""

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kbroker.config.client_network import network_of
from kbroker.config.principals import EVERYBODY
from kbroker.control.audit.files import AuditFiles
from kbroker.ipc.messages import MORE_REFUSALS, REFUSALS_OF_A_CLIENT, REFUSALS_OF_ALL, AuditEvent
from kbroker.ipc.rate_limit import LineLimits
from kbroker.metrics.slots import Slots, bind

log = logging.getLogger(__name__)

DIR_SETTING: Final = "kbroker.audit.log.dir"
MAX_QUEUED_BYTES: Final = 8 << 20
MAX_LINE_BYTES: Final = 1 << 16
MAX_TEXT: Final = 300
"""Characters of one name or text; longer ones are cut and marked."""
EVENTS_AT_ONCE: Final = 200
"""Events of a network process whose lines are made in one turn of the loop: some 3 ms."""
MAX_EVENTS: Final = 1 << 16
"""Maximum of events that wait for their turn."""
BATCH_BYTES: Final = 1 << 18
SYNC_S: Final = 1.0
CLOSE_S: Final = 5.0
WINDOW_S: Final = 1.0
MAX_COMPARED: Final = 1000
"""Maximum of changes of a second that are compared with later ones."""
EVENTS = bind("kbroker_audit_events_total")
LOST = bind("kbroker_audit_lost_total")


class AuditLog:
    """Runs in: control. Owner: the process's main."""

    def __init__(self, files: AuditFiles, slots: Slots, retry_s: float = 1.0) -> None:
        self._files = files
        self._words = slots.words
        self._retry_s = retry_s
        self._refusals = RefusalLines()
        self._changes = ChangeLines()
        self._window: asyncio.TimerHandle | None = None
        self._events: deque[AuditEvent] = deque()
        self._turn_requested = False
        self._queue: deque[bytes] = deque()
        self._queued_bytes = self._lost = 0
        self._changed = threading.Condition()
        self._closing = self._failed = False
        self._unsynced_since_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    @classmethod
    def of(cls, config: Any, slots: Slots) -> "AuditLog | None":
        """The audit log of the settings, None when it is disabled."""
        folder = config.get_optional_str(DIR_SETTING)
        if not folder:
            return None
        max_bytes, max_files = (
            config.get_int(f"kbroker.audit.log.max.{what}") for what in ("bytes", "files")
        )
        return cls(AuditFiles(Path(folder), max_bytes, max_files), slots)

    def write(self, line: Mapping[str, Any], time_ms: int | None = None) -> None:
        """Queue one line; the time comes first. Never waits for the disk."""
        text = encoded({"time": _time(time_ms), **line})
        for part in ("request", "resources"):
            if len(text) > MAX_LINE_BYTES and part in line:
                line = {**line, part: "too long"}
                text = encoded({"time": _time(time_ms), **line})
        with self._changed:
            self._words[EVENTS] += 1
            if self._queued_bytes + len(text) > MAX_QUEUED_BYTES:
                self._lost += 1
                self._words[LOST] += 1
                return
            self._queue.append(text)
            self._queued_bytes += len(text)
            self._changed.notify()

    def admits_refusal(self, principal: str, host: str, listener: str) -> bool:
        """Whether a refused request, or one that changes nothing, has a line of its own. Others are
        counted, and the count becomes a line at the end of the second: else a client without any
        permission could have the log's oldest file removed."""
        self._open_window()
        return self._refusals.admits(principal, host, listener)

    def write_change(self, line: dict[str, Any]) -> None:
        """Queue the line of a change. Equal ones of a principal at an address within a second are
        counted in one more line: else a user who may change one topic, or renew a token, could have
        the log's oldest file removed."""
        self._open_window()
        if self._changes.admits(line):
            self.write(line)

    def _open_window(self) -> None:
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)

    def _end_window(self) -> None:
        self._window = None
        for line in self._refusals.take_rest():
            self.write(line)
        for line in self._changes.take_repeated():
            self.write(line)

    def take(self, events: Sequence[AuditEvent]) -> None:
        """Write the events of a network process in their order, some in each turn of the loop: it
        may send thousands at once."""
        room = MAX_EVENTS - len(self._events)
        self._events.extend(events[:room])
        if lost := len(events[room:]):
            with self._changed:
                self._words[EVENTS] += lost
                self._words[LOST] += lost
                self._lost += lost
        if not self._turn_requested:
            self._write_some()

    def _write_some(self) -> None:
        for _ in range(min(EVENTS_AT_ONCE, len(self._events))):
            self._write_next()
        self._turn_requested = bool(self._events)
        if self._turn_requested:
            asyncio.get_running_loop().call_soon(self._write_some)

    def _write_next(self) -> None:
        event = self._events.popleft()
        self.write(line_of(event), event.time_ms)

    def close(self) -> None:
        """Write the waiting events and the queued lines, unless the disk fails."""
        while self._events:
            self._write_next()
        self._end_window()
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S)

    # --- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Append the queued lines, a batch at a time, and sync them. A batch that fails is tried
        again."""
        batch = b""
        while True:
            closing = False
            if not batch:
                batch, closing = self._next(self._sync_in_s())
            try:
                if batch:
                    self._append(batch)
                    batch = b""
                self._sync_if_due(closing)
            except OSError as error:
                if not self._failed:
                    log.error("cannot write the audit log, its lines wait: %s", error)
                self._failed = True
                if not self._pause():
                    return
                continue
            if closing:
                self._files.close()
                return

    def _sync_in_s(self) -> float | None:
        """The time until the next sync; None if every line is synced."""
        if self._unsynced_since_s is None:
            return None
        return max(0.0, self._unsynced_since_s + SYNC_S - time.monotonic())

    def _append(self, batch: bytes) -> None:
        self._files.append(batch)
        with self._changed:
            self._queued_bytes -= len(batch)
        if self._failed:
            log.info("the audit log can be written again")
            self._failed = False
        if self._unsynced_since_s is None:
            self._unsynced_since_s = time.monotonic()

    def _sync_if_due(self, closing: bool) -> None:
        left_s = self._sync_in_s()
        if left_s is not None and (closing or left_s == 0.0):
            self._files.sync()
            self._unsynced_since_s = None

    def _next(self, wait_s: float | None) -> tuple[bytes, bool]:
        """Wait for queued lines; returns a batch of them, and whether it is the last one."""
        with self._changed:
            if not self._queue and not self._closing:
                self._changed.wait(wait_s)
            found: list[bytes] = []
            size = 0
            while self._queue and size < BATCH_BYTES:
                found.append(self._queue.popleft())
                size += len(found[-1])
            if self._lost and not self._queue and not self._failed:
                found.append(encoded({"time": _time(None), "event": "lost", "lines": self._lost}))
                self._queued_bytes += len(found[-1])
                self._lost = 0
            return b"".join(found), self._closing and not self._queue

    def _pause(self) -> bool:
        """Pause before the next attempt; False if the log is being closed: no attempt follows."""
        self._files.close()
        with self._changed:
            if self._closing:
                return False
            self._changed.wait_for(lambda: self._closing, self._retry_s)
            return True


class RefusalLines:
    """The lines of the refused requests of a second. Owner: the AuditLog."""

    def __init__(self) -> None:
        self._own: LineLimits[None] = LineLimits(REFUSALS_OF_A_CLIENT, REFUSALS_OF_ALL)
        self._rest: LineLimits[tuple[str, str, str]] = LineLimits(1, REFUSALS_OF_ALL)
        """Refusals without a line of their own: by principal, network and listener."""

    def admits(self, principal: str, host: str, listener: str) -> bool:
        """Count a refusal. Whether it has a line of its own."""
        client = principal, network_of(host)
        if self._own.begins(client):
            return True
        line = *client, listener
        self._rest.add(line, line, line, (EVERYBODY, "*", listener))
        return False

    def take_rest(self) -> list[dict[str, Any]]:
        """The second has ended: the lines of those without one."""
        self._own.take()
        return [
            {
                "event": "refusal",
                "principal": shortened(principal),
                "host": host,
                "port": 0,
                "listener": listener,
                "allowed": False,
                "resources": [{"name": MORE_REFUSALS}],
                "count": count,
            }
            for (principal, host, listener), count in self._rest.take().items()
        ]


class ChangeLines:
    """The changes of a second. Owner: the AuditLog."""

    def __init__(self) -> None:
        self._first: dict[bytes, dict[str, Any]] = {}
        self._repeated: Counter[bytes] = Counter()

    def admits(self, line: dict[str, Any]) -> bool:
        """Count a change. Whether it has a line of its own: it does not repeat one of this second,
        from the same principal and network."""
        same = {**line, "host": network_of(line["host"]), "port": 0, "client_id": None}
        key = hashlib.blake2b(encoded(same), digest_size=16).digest()
        if key in self._first:
            self._repeated[key] += 1
            return False
        if len(self._first) < MAX_COMPARED:
            self._first[key] = same
        return True

    def take_repeated(self) -> Iterator[dict[str, Any]]:
        """The second has ended: a line for all that repeated one."""
        for key, count in self._repeated.items():
            yield {**self._first[key], "count": count}
        self._repeated.clear()
        self._first.clear()


def encoded(line: Mapping[str, Any]) -> bytes:
    """One line in ASCII, so that bytes of a client can neither end it nor reach a terminal."""
    return json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"


def shortened(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({len(text)} characters)"


def _time(time_ms: int | None) -> str:
    moment = time.time() if time_ms is None else time_ms / 1000
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line_of(event: AuditEvent) -> dict[str, Any]:
    """The line of a login, a refusal or a sample of a network process."""
    line: dict[str, Any] = {
        "event": event.event,
        "principal": shortened(event.principal),
        "host": event.host,
        "port": event.port,
        "listener": event.listener,
        "operation": event.operation,
        "allowed": event.allowed,
    }
    if event.names:
        line["resources"] = [{"name": shortened(name)} for name in event.names]
    if event.count != 1:
        line["count"] = event.count
    if event.reason:
        line["reason"] = shortened(event.reason)
    return line
