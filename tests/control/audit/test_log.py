"""The audit log never makes its writer wait, and loses no line without saying so."""

import asyncio
import errno
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.audit import log as audit_log
from kbroker.control.audit.files import NAME, AuditFiles
from kbroker.control.audit.log import (
    EVENTS,
    LOST,
    MAX_LINE_BYTES,
    MAX_QUEUED_BYTES,
    AuditLog,
    ChangeLines,
    RefusalLines,
    encoded,
    shortened,
)
from kbroker.ipc.messages import MORE_REFUSALS, AuditEvent
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


def test_events_of_a_network_process_are_written_some_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, thousands of logins or refusals of a second took control 50 ms in one piece."""
    monkeypatch.setattr(audit_log, "EVENTS_AT_ONCE", 2)
    log, slots = opened(tmp_path)
    events = [AuditEvent(0, "login", f"User:{number}", "h", 1, "L", "PLAIN", True) for number in range(7)]
    written = []

    async def story() -> None:
        log.take(events[:5])
        for _ in range(2):
            written.append(int(slots.words[EVENTS]))
            await asyncio.sleep(0)
        log.take(events[5:])
        written.append(int(slots.words[EVENTS]))

    asyncio.run(story())
    assert written == [2, 4, 7]
    log.close()
    assert [line["principal"] for line in lines(tmp_path)] == [event.principal for event in events]


def test_events_that_wait_are_limited_and_lost_ones_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "EVENTS_AT_ONCE", 1)
    monkeypatch.setattr(audit_log, "MAX_EVENTS", 2)
    log, slots = opened(tmp_path)
    event = AuditEvent(0, "login", "User:a", "h", 1, "L", "PLAIN", True)

    async def story() -> None:
        log.take([event] * 5)

    asyncio.run(story())
    log.close()
    found = sorted(lines(tmp_path), key=lambda line: str(line["event"]))
    assert [line["event"] for line in found] == ["login", "login", "lost"]
    assert found[-1]["lines"] == slots.words[LOST] == 3
    assert slots.words[EVENTS] == 5


def test_a_client_with_very_many_refused_requests_has_some_lines_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have theirs, and the rest of the second is counted."""
    monkeypatch.setattr(audit_log, "REFUSALS_OF_A_CLIENT", 2)
    monkeypatch.setattr(audit_log, "WINDOW_S", 0.0)
    log, _ = opened(tmp_path)

    async def story() -> list[bool]:
        found = [log.admits_refusal("User:a", host, "L") for host in ("2001:db8::1", "2001:db8::2") * 3]
        found.append(log.admits_refusal("User:b", "2001:db8::1", "L"))
        while log._window is not None:
            await asyncio.sleep(0)
        found.append(log.admits_refusal("User:a", "2001:db8::1", "L"))
        return found

    assert asyncio.run(story()) == [True, True, False, False, False, False, True, True]
    log.close()
    (line,) = lines(tmp_path)
    assert (line["event"], line["principal"], line["host"]) == ("refusal", "User:a", "2001:db8::/64")
    assert (line["count"], line["resources"]) == (4, [{"name": MORE_REFUSALS}])


def test_refused_requests_of_very_many_clients_have_a_number_of_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_log, "REFUSALS_OF_ALL", 2)
    refusals = RefusalLines()
    found = [refusals.admits(f"User:{number}", "h", "L") for number in range(7)]
    assert found == [True, True, False, False, False, False, False]
    rest = [(line["principal"], line["host"], line["count"]) for line in refusals.take_rest()]
    assert rest == [("User:2", "h", 1), ("User:3", "h", 1), ("User:*", "*", 3)]
    assert refusals.take_rest() == []
    assert refusals.admits("User:9", "h", "L")


def change(host: str = "2001:db8::1", port: int = 1, name: str = "t", **more: Any) -> dict[str, Any]:
    who = {"principal": "User:a", "host": host, "port": port, "listener": "L", "client_id": str(port)}
    return {"event": "change", **who, **more, "operation": "CreateTopics", "resources": [{"name": name}]}


def test_a_change_that_is_repeated_without_end_has_some_lines_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a user who may change one topic, or own a token; before, each request had a line."""
    monkeypatch.setattr(audit_log, "WINDOW_S", 0.05)
    log = AuditLog(AuditFiles(tmp_path, 1 << 30, 2), private())

    async def run() -> None:
        for port in range(500):
            log.write_change(change(f"2001:db8::{port:x}", port))
        log.write_change(change(name="u"))
        log.write_change(change(principal="User:b"))
        await asyncio.sleep(0.2)
        log.write_change(change())

    asyncio.run(run())
    log.close()
    found = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    assert [(line["principal"], line["resources"][0]["name"], line.get("count")) for line in found] == [
        ("User:a", "t", None),
        ("User:a", "u", None),
        ("User:b", "t", None),
        ("User:a", "t", 499),
        ("User:a", "t", None),
    ]
    assert (found[3]["host"], found[3]["port"], found[3]["client_id"]) == ("2001:db8::/64", 0, None)


def test_changes_are_compared_with_some_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MAX_COMPARED", 2)
    changes = ChangeLines()
    assert all(changes.admits(change(name=name)) for name in "abc")
    assert [changes.admits(change(name=name)) for name in "abc"] == [False, False, True]
    assert [line["resources"][0]["name"] for line in changes.take_repeated()] == ["a", "b"]
    assert list(changes.take_repeated()) == []


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
