"""Throttled rates and copied bytes of replica sites, in shared memory."""

from kbroker.ipc.replication_rates import FOLLOWER, LEADER, ReplicationRates
from kbroker.ipc.shared import Shared, Sizes


def test_a_rate_of_nothing_is_another_than_no_limit() -> None:
    shared = Shared(Sizes(1, 2, 1, 8, 4096))
    control, worker = ReplicationRates(shared), ReplicationRates(shared)
    assert (worker.rate(0, LEADER), worker.rate(1, FOLLOWER)) == (None, None)
    control.set(0, LEADER, 0)
    control.set(0, FOLLOWER, 5)
    control.set(1, LEADER, 2**62)
    assert [worker.rate(site, side) for site in (0, 1) for side in (LEADER, FOLLOWER)] == [0, 5, 2**62, None]
    control.set(0, LEADER, None)
    assert (worker.rate(0, LEADER), worker.rate(0, FOLLOWER)) == (None, 5)


def test_bytes_of_all_workers_are_those_of_a_site_and_side() -> None:
    rates = ReplicationRates(Shared(Sizes(1, 2, 1, 8, 4096)))
    rates.add(0, 1, LEADER, 100)
    rates.add(1, 1, LEADER, 20)
    rates.add(1, 1, LEADER, 3)
    rates.add(1, 1, FOLLOWER, 7)
    assert [rates.total(site, side) for site in (0, 1) for side in (LEADER, FOLLOWER)] == [0, 0, 123, 7]
