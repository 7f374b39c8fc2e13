"""Fetches of 400,000 partitions by several clients at once, beside steady ones."""

import socket
import struct
import threading
import time

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.attack.others import Others
from tests.attack.peers import port_of
from tests.attack.steady import Steady
from tests.callbacks import slowness
from tests.compat.raw import receive
from tests.conftest import BrokerFactory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ATTACKERS = 4
ROUNDS = 4
"""At most: a busy host may hold a client up for seconds in one of them, but not in all."""
PARTITIONS = 400_000
NEARLY_ALL_WAIT_S, MAX_WAIT_S = 1.0, 4.0
GROWTH_MB = 600
"""Of all processes, some seconds after; memory that they share counts in each. It is 400, of
buffers that stay."""


def long_fetch() -> bytes:
    parts = [FetchPartition(number, partition_max_bytes=1000) for number in range(PARTITIONS)]
    request = FetchRequest(
        max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=parts)]
    )
    return encode_request(ApiKey.FETCH, 11, 7, "long", request)


def attack(port: int, frame: bytes, outcomes: list[str]) -> None:
    """One request; what became of it."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=600) as link:
            link.sendall(frame)
            size = receive(link, 4)
            left = 0 if size is None else struct.unpack(">i", size)[0]
            answered = left > 0
            while left > 0 and (got := link.recv(min(left, 1 << 20))):
                left -= len(got)
            outcomes.append("answered" if answered and not left else "closed")
    except OSError as error:
        outcomes.append(type(error).__name__)


def beside_attack(port: int, frame: bytes) -> list[list[float]]:
    """Sorted waits, in seconds, of a steady client and of another one while all attackers are
    answered."""
    outcomes: list[str] = []
    with Steady(port) as steady, Others(port) as others:
        began = time.monotonic()
        threads = [threading.Thread(target=attack, args=(port, frame, outcomes)) for _ in range(ATTACKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
    print(f"{took:.1f} s, {sorted(outcomes)}, steady {max(steady.trips):.3f}, others {others.waits[-1]:.3f}")
    assert outcomes == ["answered"] * ATTACKERS
    return [sorted(steady.trips), others.waits]


def served_soon(rounds: list[list[float]]) -> bool:
    """Whether one client hardly waited in one of the rounds."""
    nearly_all = min(trips[len(trips) * 99 // 100] for trips in rounds)
    slower = slowness()
    return (
        nearly_all < NEARLY_ALL_WAIT_S * slower and min(trips[-1] for trips in rounds) < MAX_WAIT_S * slower
    )


def test_steady_clients_are_served_beside_long_fetches(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    port = port_of(broker)
    frame = long_fetch()
    pids = {title: child.pid for title, child in broker.children().items()}
    before = sum(child.memory_info().rss for child in broker.children().values())
    steady, others = ([trips] for trips in beside_attack(port, frame))
    deadline = time.monotonic() + 60
    while (grown := sum(c.memory_info().rss for c in broker.children().values()) - before) > GROWTH_MB << 20:
        assert time.monotonic() < deadline, f"{grown >> 20} MB more"
        time.sleep(0.2)
    while not (served_soon(steady) and served_soon(others)) and len(steady) < ROUNDS:
        for rounds, trips in zip((steady, others), beside_attack(port, frame), strict=True):
            rounds.append(trips)
    for rounds in (steady, others):
        assert served_soon(rounds), [trips[-20:] for trips in rounds]
    assert {title: child.pid for title, child in broker.children().items()} == pids
    assert "Traceback" not in broker.logs(1 << 20)
