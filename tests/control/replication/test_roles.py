"""The role of each replica, as its IO worker is sent it."""

import pytest

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.replication.roles import role_of
from kbroker.ipc.messages import Follow, Lead


def partition(*in_sync: bool) -> Partition:
    """A partition whose replicas have the slots 10, 11 ... and the workers 0, 1 ...; the first one
    leads, in epoch 4. in_sync: of each replica."""
    made = Partition("a", 3, "/d0", 10, 20, leader_epoch=4)
    made.replicas = [
        Replica("a", 3, f"/d{n}", 10 + n, 20 + n, worker=n, in_sync=each) for n, each in enumerate(in_sync)
    ]
    made.leader = made.replicas[0]
    return made


def test_the_only_replica_has_no_role() -> None:
    alone = partition(True)
    assert role_of(alone, alone.leader, 1) is None


def test_a_leader_waits_for_the_other_replicas_that_are_in_sync_or_about_to_be() -> None:
    made = partition(True, True, False, False)
    made.replicas[3].joining = True
    others = ((11, 1), (12, 2), (13, 3))
    assert role_of(made, made.leader, 2) == Lead(10, 4, (11, 13), others, 2)


def test_a_follower_copies_from_the_leader() -> None:
    made = partition(True, False, True)
    made.leader = made.replicas[2]
    assert role_of(made, made.replicas[0], 1) == Follow(10, 4, 12, 22, 2, "/d2/a-3")
    assert role_of(made, made.replicas[1], 1) == Follow(11, 4, 12, 22, 2, "/d2/a-3")


@pytest.mark.parametrize(("requested", "minimum"), [(1, 1), (2, 2), (3, 2)])
def test_a_partition_needs_no_more_replicas_in_sync_than_it_has(requested: int, minimum: int) -> None:
    made = partition(True, True)
    role = role_of(made, made.leader, requested)
    assert isinstance(role, Lead)
    assert role.minimum == minimum
