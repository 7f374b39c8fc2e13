"""Slow requests are written with their client and the time of each stage, in a bounded number."""

import logging
import struct
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.block import pack_answer
from kbroker.metrics.slots import Slots, bind, private
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag, Request
from kbroker.net.usage.client_bytes import MAX_CLIENT_ID
from kbroker.net.usage.slow_requests import MAX_A_SECOND, SlowRequests
from kbroker.protocol.api_keys import ApiKey
from tests.net.requests import batch, produce_frame

MS = 1_000_000
NOW_NS = 50_000 * MS
ROW = 1


class Scene:
    """One connection, whose requests are slow from 100 ms on."""

    def __init__(self, caplog: pytest.LogCaptureFixture, limit_ms: int = 100) -> None:
        settings = {"log.dirs": "/d", "kbroker.slow.request.ms": str(limit_ms)}
        config, _ = BrokerConfig.load(settings)
        self.slots: Slots = private()
        self.rows = ConnectionRow.table(2)
        self.rows[:, ConnectionRow.HEAD] = -1
        self.requests = Request.table(2)
        self.frame = produce_frame(batch())[4:]
        self.tables: Any = SimpleNamespace(
            connections=self.rows,
            requests=self.requests,
            metrics=self.slots,
            arena_bytes=memoryview(self.frame),
        )
        self.slow = SlowRequests(self.tables, config)
        self.connection: Any = SimpleNamespace(
            api_key=ApiKey.METADATA, api_version=12, bytes_of="etl", principal="User:u", peer="::1:5000",
            listener=SimpleNamespace(listener="SSL"), queued_ns=0, purgatory_ns=0, cold_ns=0, throttle_ms=0,
        )  # fmt: skip
        self._caplog = caplog

    @property
    def lines(self) -> list[dict[str, Any]]:
        records = self._caplog.records
        return [{"message": record.getMessage(), **vars(record).get("fields", {})} for record in records]

    def asks(self, api: ApiKey, waited_ms: int, queued_ms: int = 0) -> int:
        """Control is asked; the number of the call."""
        call = ~((7 << 24) | ROW)
        row = self.rows[ROW]
        row[ConnectionRow.CALL] = call
        row[ConnectionRow.API] = api | 9 << 16
        row[ConnectionRow.BEGAN_NS] = NOW_NS - waited_ms * MS
        row[ConnectionRow.QUEUED_NS] = queued_ms * MS
        return call

    def produces(self, ago_ms: int) -> None:
        """A Produce request waits."""
        self.rows[ROW, [ConnectionRow.FLAGS, ConnectionRow.HEAD]] = Flag.OPEN, 1
        request = self.requests[1]
        request[Request.VERSION], request[Request.FRAME_BYTES] = 7, len(self.frame)
        request[Request.RECEIVED_NS] = NOW_NS - ago_ms * MS


@pytest.fixture
def scene(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(time, "monotonic_ns", lambda: NOW_NS)
    caplog.set_level(logging.INFO)
    return Scene(caplog)


def test_a_request_that_python_served_has_its_client_and_its_stages(scene: Scene) -> None:
    scene.connection.queued_ns, scene.connection.throttle_ms = 30 * MS, 7
    scene.slow.answered(scene.connection, 68 * MS, 1 * MS)
    assert scene.lines == []
    scene.slow.answered(scene.connection, 69 * MS, 1 * MS)
    assert scene.lines == [
        {
            "message": "slow request", "api": "Metadata", "version": 12, "client_id": "etl", "principal": "User:u",
            "connection": "::1:5000", "listener": "SSL", "total_ms": 100.0, "queue_ms": 30.0, "local_ms": 69.0,
            "send_ms": 1.0, "throttle_ms": 7,
        }
    ]  # fmt: skip


def test_a_fetch_is_not_slow_because_it_waits_for_records(scene: Scene) -> None:
    scene.connection.api_key, scene.connection.purgatory_ns = ApiKey.FETCH, 5000 * MS
    scene.slow.answered(scene.connection, 1 * MS, 1 * MS)
    assert scene.lines == []
    scene.connection.cold_ns = 200 * MS
    scene.slow.answered(scene.connection, 1 * MS, 1 * MS)
    (line,) = scene.lines
    assert (line["purgatory_ms"], line["cold_read_ms"], line["total_ms"]) == (5000, 200, 5202)


def test_a_forwarded_request_is_written_when_its_answer_comes(scene: Scene) -> None:
    call = scene.asks(ApiKey.JOIN_GROUP, 300, 5)
    other = pack_answer(~((8 << 24) | 9), b"of a connection that has gone")
    block = bytearray(other + pack_answer(call, b"frame"))
    scene.slow.forwarded(block, {ROW: scene.connection})
    (line,) = scene.lines
    assert (line["api"], line["version"], line["client_id"]) == ("JoinGroup", 9, "etl")
    assert (line["total_ms"], line["queue_ms"], line["local_ms"]) == (305, 5, 300)


def test_an_answer_without_a_waiter_is_not_written(scene: Scene) -> None:
    call = scene.asks(ApiKey.HEARTBEAT, 300)
    block = bytearray(pack_answer(~((6 << 24) | ROW), b"of an earlier call"))
    scene.slow.forwarded(block, {ROW: scene.connection})
    scene.asks(ApiKey.HEARTBEAT, 99)
    scene.slow.forwarded(bytearray(pack_answer(call, b"frame")), {ROW: scene.connection})
    assert scene.lines == []


def test_a_produce_that_python_answers_has_the_stages_of_the_io_worker(scene: Scene) -> None:
    scene.produces(400)
    request = scene.requests[1]
    request[Request.WRITTEN_NS], request[Request.ENDED_NS] = NOW_NS - 390 * MS, NOW_NS - 20 * MS
    scene.slow.produced(scene.connection, request.tolist(), 70)
    (line,) = scene.lines
    assert (line["api"], line["client_id"], line["throttle_ms"]) == ("Produce", "test", 70)
    stages = {name: line[f"{name}_ms"] for name in ("queue", "append", "flush", "respond", "total")}
    assert stages == {"queue": 0, "append": 10, "flush": 370, "respond": 20, "total": 400}


def test_a_produce_that_waits_is_written_once(scene: Scene) -> None:
    scene.produces(99)
    scene.slow.tick({ROW: scene.connection})
    assert scene.lines == []
    scene.produces(1500)
    scene.slow.tick({ROW: scene.connection})
    scene.slow.tick({ROW: scene.connection})
    (line,) = scene.lines
    assert (line["unfinished"], line["waiting_ms"], line["client_id"]) == (True, 1500, "test")
    scene.produces(1000)  # another one
    scene.slow.tick({ROW: scene.connection})
    assert len(scene.lines) == 2


def test_requests_of_kernels_are_counted_by_stage(scene: Scene) -> None:
    for phase, spent_ms in (("append", 1), ("flush", 200), ("flush", 300), ("total", 301)):
        scene.slots.observe(bind("kbroker_request_phase_seconds", api="Produce", phase=phase), spent_ms * MS)
    scene.slots.observe(bind("kbroker_request_phase_seconds", api="Fetch", phase="purgatory"), 500 * MS)
    scene.slow.tick({})
    scene.slow.tick({})
    (line,) = scene.lines
    assert 100 <= line.pop("at_least_ms") < 115
    assert line == {"message": "slow stages", "api": "Produce", "flush": 2}


def test_lines_are_limited_and_those_left_out_are_counted(scene: Scene) -> None:
    for _ in range(MAX_A_SECOND + 5):
        scene.slow.answered(scene.connection, 200 * MS, 0)
    scene.slow.tick({})
    assert len(scene.lines) == MAX_A_SECOND + 1
    assert scene.lines[-1]["message"] == "5 more slow requests were not logged"
    scene.slow.answered(scene.connection, 200 * MS, 0)
    scene.slow.tick({})
    assert len(scene.lines) == MAX_A_SECOND + 2


def test_a_client_id_is_cut(scene: Scene) -> None:
    long = "c" * 1000
    head = struct.pack(">hhih", ApiKey.PRODUCE, 7, 1, len(long)) + long.encode()
    scene.tables.arena_bytes = memoryview(head)
    scene.frame = head
    scene.produces(1000)
    scene.slow.tick({ROW: scene.connection})
    assert scene.lines[0]["client_id"] == "c" * MAX_CLIENT_ID


def test_it_is_off_by_default(caplog: pytest.LogCaptureFixture) -> None:
    config, _ = BrokerConfig.load({"log.dirs": "/d"})
    assert not SlowRequests(Scene(caplog).tables, config).on
    assert Scene(caplog).slow.on


def test_the_limit_may_be_beyond_the_longest_bucket(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(caplog, limit_ms=(1 << 31) - 1)
    scene.slots.observe(bind("kbroker_request_phase_seconds", api="Produce", phase="flush"), 200 * MS)
    scene.slow.tick({})
    assert scene.lines == []
