"""Counts of a network process: what the pump counted is taken over once, and closed connections
count by their reason."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.layout import ProcessLine
from kbroker.metrics.slots import bind, private
from kbroker.net.rows import Context
from kbroker.net.usage.request_counts import SHORT, UNREAD, RequestCounts

BYTES_IN = Context.STAT_BYTES_IN
RECEIVED = bind("kbroker_received_bytes_total")
EVICTIONS = bind("kbroker_fetch_session_evictions_total")


class Scene:
    def __init__(self) -> None:
        config, _ = BrokerConfig.load({"log.dirs": "/d"})
        self.slots = private()
        self.words = Context.row()
        self.lines = np.zeros((1, ProcessLine.WORDS), np.int64)
        tables: Any = SimpleNamespace(
            metrics=self.slots, words=self.words, client=0, shared=SimpleNamespace(processes=self.lines)
        )
        self.counts = RequestCounts(tables, config)


def test_a_tick_takes_over_each_byte_once() -> None:
    scene = Scene()
    scene.words[BYTES_IN] = 100
    scene.counts.tick(0, 0)
    scene.counts.tick(0, 0)
    assert scene.slots.words[RECEIVED] == 100
    scene.words[BYTES_IN] = 130
    scene.counts.tick(0, 0)
    assert scene.slots.words[RECEIVED] == 130
    assert scene.lines[0, ProcessLine.HEARTBEAT_NS] > 0


def test_evictions_of_sessions_add_up() -> None:
    scene = Scene()
    for evictions in (2, 2, 5):
        scene.counts.fetches(0, 0, 0, 0, evictions)
    assert scene.slots.words[EVICTIONS] == 5


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("idle", "idle"),
        (SHORT, "memory"),
        (UNREAD, "memory"),
        ("closed by the client", "peer"),
        ("a bad frame", "error"),
    ],
)
def test_closed_connections_count_by_their_reason(reason: str, why: str) -> None:
    scene = Scene()
    closed: list[object] = []
    scene.counts.clients = SimpleNamespace(closed=closed.append)  # type: ignore[assignment]
    connection: Any = SimpleNamespace(accepted=SimpleNamespace(listener=0))
    scene.counts.closed(connection, reason)
    assert scene.slots.words[bind("kbroker_connections_closed_total", why=why)] == 1
    assert closed == [connection]
