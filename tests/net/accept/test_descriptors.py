"""Shares of a network process's descriptors: connections, and the files that it reads."""

import resource
from itertools import permutations

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.accept import descriptors
from kbroker.net.accept.descriptors import (
    AHEAD,
    MAX_FILES_OPEN,
    MIN_CONNECTIONS,
    MIN_FILES_OPEN,
    OWN,
    PLAIN_CONNECTION,
    TLS_CONNECTION,
    UNLIMITED_FILES,
    OwnDescriptors,
    ProcessRoom,
    cost_of,
    for_connections,
    hard_limit,
    min_files,
)

INHERITED = 50


@pytest.mark.parametrize("limit", [700, 1024, 4096, 20_000, 100_000, 1 << 20])
def test_connections_and_files_together_stay_below_the_limit(limit: int) -> None:
    connections = for_connections(limit, INHERITED)
    assert connections + min_files(limit) + OWN + INHERITED == limit
    assert connections > limit // 2
    own = OwnDescriptors(limit, INHERITED)
    for _ in range(connections):
        if own.connected(PLAIN_CONNECTION):
            own.divide()
    assert own.files == min_files(limit)


@pytest.mark.parametrize(("limit", "files"), [(64, 64), (2048, 64), (20_000, 625), (1 << 20, MAX_FILES_OPEN)])
def test_files_keep_a_share_however_many_connections_there_are(limit: int, files: int) -> None:
    assert min_files(limit) == files >= MIN_FILES_OPEN


def test_under_the_lowest_limits_some_connections_are_accepted() -> None:
    assert for_connections(100, INHERITED) == MIN_CONNECTIONS >= TLS_CONNECTION


def test_a_connection_with_tls_costs_more() -> None:
    config = BrokerConfig({
        "listeners": "A://:1,B://:2,C://:3,D://:4",
        "listener.security.protocol.map": "A:PLAINTEXT,B:SSL,C:SASL_PLAINTEXT,D:SASL_SSL",
        "inter.broker.listener.name": "A",
    })  # fmt: skip
    costs = [cost_of(endpoint) for endpoint in config.listeners]
    assert costs == [PLAIN_CONNECTION, TLS_CONNECTION] * 2


def test_the_limit_is_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 5000))
    assert hard_limit() == 5000
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    assert hard_limit() == UNLIMITED_FILES


def test_files_give_way_to_connections_and_come_back() -> None:
    own = OwnDescriptors(OWN + MAX_FILES_OPEN + AHEAD + 1000, 0)
    assert own.files == MAX_FILES_OPEN
    assert not any(own.connected(1) for _ in range(1000 + AHEAD))
    assert own.connected(1)
    assert own.divide() == MAX_FILES_OPEN - AHEAD - 1
    assert not any(own.connected(1) for _ in range(AHEAD))
    assert own.connected(1)
    for _ in range(1002 + 2 * AHEAD):
        own.closed(1)
    assert own.divide() == MAX_FILES_OPEN


def test_with_the_minimum_of_files_no_connection_closes_more_of_them() -> None:
    own = OwnDescriptors(1000, 0)
    while own.divide() > min_files(1000):
        own.connected(1)
    assert not any(own.connected(1) for _ in range(100))


@pytest.mark.parametrize("costs", set(permutations([1, 1, 4, 4, 4, 1, 1])))
def test_each_connection_that_fits_finds_a_process(costs: tuple[int, ...]) -> None:
    room = ProcessRoom(2, 6)
    room.accepted(4)
    room.give(0, 4)
    waiting = []
    for cost in costs:
        if room.fits(cost):
            room.accepted(cost)
            waiting.append(cost)
    assert waiting
    for cost in waiting:
        process = room.choose((0, 1), cost)
        assert process is not None
        room.give(process, cost)


def test_the_process_with_the_fewest_connections_is_chosen_if_it_has_room() -> None:
    room = ProcessRoom(2, 8)
    for process, cost in ((0, 4), (1, 1), (1, 1)):
        room.accepted(cost)
        room.give(process, cost)
    assert room.load == [1, 2]
    assert room.choose((0, 1), 4) == 0
    assert room.choose((1,), 4) == 1
    assert room.choose((0, 1), 5) == 1
    assert room.choose((0, 1), 7) is None
    assert room.choose((), 1) is None


def test_connections_that_are_sent_back_or_closed_leave_room() -> None:
    room = ProcessRoom(1, 4)
    for _ in range(4):
        assert room.fits(1)
        room.accepted(1)
    assert not room.fits(1)
    for _ in range(4):
        room.give(0, 1)
    room.take_back(0, [1, 1])
    assert (room.load, room.fits(1)) == ([2], False)
    assert room.choose((0,), 2) == 0
    room.give(0, 1)
    room.give(0, 1)
    room.closed(0, 1)
    assert (room.load, room.fits(1), room.fits(2)) == ([3], True, False)


def test_this_process_has_descriptors_open() -> None:
    assert 3 <= descriptors.open_now() < 100_000
