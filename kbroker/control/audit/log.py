"""Writes the audit log.

The event loop encodes each line and queues it; it never waits for the disk. A thread appends the
queued lines and syncs them at most once a second. While the disk fails, the lines stay in the
queue. Lines beyond MAX_QUEUED_BYTES are dropped and counted, and the count becomes a line later.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kbroker.control.audit.files import AuditFiles
from kbroker.ipc.messages import AuditEvent
from kbroker.metrics.slots import Slots, bind

log = logging.getLogger(__name__)

DIR_SETTING: Final = "kbroker.audit.log.dir"
MAX_QUEUED_BYTES: Final = 8 << 20
MAX_LINE_BYTES: Final = 1 << 16
MAX_TEXT: Final = 300
"""Characters of one name or text; longer ones are cut and marked."""
BATCH_BYTES: Final = 1 << 18
SYNC_S: Final = 1.0
CLOSE_S: Final = 5.0
EVENTS = bind("kbroker_audit_events_total")
LOST = bind("kbroker_audit_lost_total")


class AuditLog:
    """Runs in: control. Owner: the process's main."""

    def __init__(self, files: AuditFiles, slots: Slots, retry_s: float = 1.0) -> None:
        self._files = files
        self._words = slots.words
        self._retry_s = retry_s
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

    def close(self) -> None:
        """Write the queued lines, unless the disk fails."""
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


def encoded(line: Mapping[str, Any]) -> bytes:
    """One line in ASCII, so that bytes of a client can neither end it nor reach a terminal."""
    return json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"


def shortened(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({len(text)} characters)"


def _time(time_ms: int | None) -> str:
    moment = time.time() if time_ms is None else time_ms / 1000
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_events(audit: AuditLog | None, events: tuple[AuditEvent, ...]) -> None:
    """Write events of a network process, if anything is audited."""
    if audit is not None:
        for event in events:
            audit.write(line_of(event), event.time_ms)


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
