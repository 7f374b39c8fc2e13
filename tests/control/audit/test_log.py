"""The audit log never makes its writer wait, and loses no line without saying so."""

import errno
import json
import threading
from pathlib import Path
from typing import Any

from kbroker.control.audit import log as audit_log
from kbroker.control.audit.files import NAME, AuditFiles
from kbroker.control.audit.log import (
    EVENTS,
    LOST,
    MAX_LINE_BYTES,
    MAX_QUEUED_BYTES,
    AuditLog,
    encoded,
    shortened,
)
from kbroker.metrics.slots import Slots, private


class FullDisk(AuditFiles):
    """Refuses until it is freed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1 << 30, 2)
        self.free = threading.Event()
        self.refused = threading.Event()

    def append(self, text: bytes) -> None:
        if not self.free.is_set():
            self.refused.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(text)


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def opened(folder: Path) -> tuple[AuditLog, Slots]:
    slots = private()
    return AuditLog(AuditFiles(folder, 1 << 20, 3), slots, retry_s=0.01), slots


def test_lines_are_on_disk_after_the_close_in_their_order(tmp_path: Path) -> None:
    log, slots = opened(tmp_path)
    for number in range(2000):
        log.write({"event": "change", "number": number})
    log.close()
    found = lines(tmp_path)
    assert [line["number"] for line in found] == list(range(2000))
    assert next(iter(found[0])) == "time"
    assert found[0]["time"].endswith("Z")
    assert (slots.words[EVENTS], slots.words[LOST]) == (2000, 0)


def test_a_full_disk_blocks_no_caller_and_lost_lines_are_counted(tmp_path: Path) -> None:
    disk, slots = FullDisk(tmp_path), private()
    log = AuditLog(disk, slots, retry_s=0.01)
    text = "x" * 200
    count = MAX_QUEUED_BYTES // 200
    log.write({"number": -1})
    assert disk.refused.wait(60)
    for number in range(count):
        log.write({"number": number, "text": text})
    lost = slots.words[LOST]
    assert lost > 0
    disk.free.set()
    log.close()
    found = lines(tmp_path)
    assert [line["number"] for line in found[:-1]] == list(range(-1, count - lost))
    assert found[-1]["event"] == "lost"
    assert found[-1]["lines"] == lost


def test_a_stop_does_not_wait_for_a_disk_that_refuses(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    log = AuditLog(disk, private(), retry_s=60)
    log.write({"number": 1})
    assert disk.refused.wait(60)
    log.close()
    assert not log._thread.is_alive()


def test_names_of_clients_cannot_forge_a_line_or_reach_a_terminal() -> None:
    name = 'a"}\n{"event":"change","principal":"User:admin\u2028\x1b[2J\x00\ud800\u202e'
    text = encoded({"name": name})
    assert text.count(b"\n") == 1
    assert text.isascii()
    assert text[:-1].decode().isprintable()
    assert json.loads(text) == {"name": name}


def test_a_line_is_bounded(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    log.write({"event": "change", "resources": ["r"], "request": "x" * MAX_LINE_BYTES})
    log.close()
    assert [(line["resources"], line["request"]) for line in lines(tmp_path)] == [(["r"], "too long")]
    assert len(shortened("x" * 100_000)) < 400
    assert audit_log.MAX_LINE_BYTES < audit_log.MAX_QUEUED_BYTES
