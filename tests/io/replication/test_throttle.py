"""Throttles of replication: which replica is throttled, by which rate, and how long."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.io.replication.throttle import Debt, Throttle
from kbroker.ipc.replication_rates import FOLLOWER, LEADER, ReplicationRates
from kbroker.ipc.shared import Shared, Sizes

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


def shared() -> Shared:
    return Shared(Sizes(1, 4, 8, 16, 1 << 16, log_dirs=2))


def throttle(words: Shared, worker: int, clock: Clock | None = None) -> Throttle:
    return Throttle(words, worker, 1, 2, clock or Clock())


def config(leader: str = "", follower: str = "") -> TopicConfig:
    names = {"leader": leader, "follower": follower}
    overrides = {f"{side}.replication.throttled.replicas": text for side, text in names.items() if text}
    return TopicConfig.resolve(overrides, BrokerConfig({"log.dirs": "/nowhere"}))


@pytest.mark.parametrize(
    ("leader", "follower", "found"),
    [
        ("", "", []),
        ("*", "", [(0, LEADER)]),
        ("", "*", [(1, FOLLOWER)]),
        ("3:1", "3:2", [(0, LEADER), (1, FOLLOWER)]),
        ("3:2,4:1", "3:1,4:2", []),
    ],
)
def test_a_copy_is_under_the_limits_of_the_sites_that_the_topic_names(
    leader: str, follower: str, found: list[tuple[int, int]]
) -> None:
    """Worker 1 of the second site, node 2, copies from worker 2 of the first, node 1."""
    assert throttle(shared(), 1).limits(config(leader, follower), 3, leader_worker=2) == found


def test_a_replica_in_sync_is_never_held_back_and_another_until_time_has_paid() -> None:
    words, clock = shared(), Clock()
    own, limits = throttle(words, 1, clock), [(1, FOLLOWER)]
    ReplicationRates(words).set(1, FOLLOWER, 1000)
    assert not own.holds(5, limits)
    own.copied(limits, 2000)
    assert own.holds(5, limits)
    words.in_sync[5] = 1
    assert not own.holds(5, limits)
    words.in_sync[5] = 0
    clock.ns += 2 * SECOND - 1
    assert own.holds(5, limits)
    clock.ns += 1
    assert not own.holds(5, limits)


def test_workers_of_a_site_share_its_rate_and_other_sites_have_their_own() -> None:
    words = shared()
    one, other, elsewhere = throttle(words, 1), throttle(words, 3), throttle(words, 0)
    for site in (0, 1):
        ReplicationRates(words).set(site, FOLLOWER, 1000)
    assert not any((one.holds(5, [(1, FOLLOWER)]), other.holds(5, [(1, FOLLOWER)])))
    assert not elsewhere.holds(5, [(0, FOLLOWER)])
    one.copied([(1, FOLLOWER)], 500)
    assert other.holds(5, [(1, FOLLOWER)])
    assert not elsewhere.holds(5, [(0, FOLLOWER)])


def test_no_rate_throttles_nothing_and_the_rate_0_throttles_everything() -> None:
    words, clock = shared(), Clock()
    own, limits = throttle(words, 1, clock), [(0, LEADER)]
    assert not own.holds(5, limits)
    own.copied(limits, 1 << 40)
    assert not own.holds(5, limits)
    ReplicationRates(words).set(0, LEADER, 0)
    assert not own.holds(5, limits)
    own.copied(limits, 1)
    clock.ns += 1000 * SECOND
    assert own.holds(5, limits)
    ReplicationRates(words).set(0, LEADER, None)
    assert not own.holds(5, limits)


def test_time_without_copies_saves_nothing_up() -> None:
    debt = Debt()
    assert not debt.is_open(0, 1000, 0)
    assert not debt.is_open(0, 1000, 1000 * SECOND)
    assert debt.is_open(2000, 1000, 1001 * SECOND)
    assert not debt.is_open(2000, 1000, 1002 * SECOND)
