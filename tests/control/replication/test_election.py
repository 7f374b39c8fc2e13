"""The choice of a leader among the replicas of a partition."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.replication.election import choose_leaders, electable

FIRST, SECOND, THIRD = 0, 1, 2


def partition(in_sync: tuple[int, ...], removing: tuple[int, ...] = ()) -> Partition:
    """Three replicas, in slots 0 to 2."""
    made = Partition("t", 0, "/0", FIRST, 1)
    others = [Replica("t", 0, f"/{slot}", slot, 1) for slot in (SECOND, THIRD)]
    made.replicas = [made.leader, *others]
    for replica in made.replicas:
        replica.in_sync = replica.slot in in_sync
    made.removing = [replica for replica in made.replicas if replica.slot in removing]
    return made


def chosen(made: Partition, *present: int, unclean: bool = False) -> int | None:
    found = electable(made, lambda replica: replica.slot in present, unclean)
    return None if found is None else found.slot


def test_the_first_replica_that_is_in_sync_and_present_leads() -> None:
    made = partition(in_sync=(SECOND, THIRD))
    assert chosen(made, FIRST, SECOND, THIRD) == SECOND
    assert chosen(made, FIRST, THIRD) == THIRD
    assert chosen(made, FIRST) is None


def test_a_replica_that_is_to_be_removed_leads_only_if_no_other_in_sync_replica_can() -> None:
    made = partition(in_sync=(FIRST, SECOND), removing=(FIRST,))
    assert chosen(made, FIRST, SECOND) == SECOND
    assert chosen(made, FIRST) == FIRST


@pytest.mark.parametrize(("present", "leader"), [((FIRST, SECOND), SECOND), ((FIRST,), None)])
def test_an_unclean_election_takes_no_replica_that_is_to_be_removed(
    present: tuple[int, ...], leader: int | None
) -> None:
    made = partition(in_sync=(THIRD,), removing=(FIRST,))
    assert chosen(made, *present, unclean=True) == leader
    assert chosen(made, *present) is None


def of_run(*partitions: Partition, present: tuple[int, ...] = (FIRST, SECOND, THIRD)) -> Any:
    """The part of a broker that a start uses. present: the slots of replicas whose log dirs are
    online."""
    catalogue = SimpleNamespace(partitions=lambda: partitions)
    return SimpleNamespace(catalogue=catalogue, online_dirs=[f"/{slot}" for slot in present])


def test_a_new_run_begins_with_the_preferred_leader_where_it_is_in_sync() -> None:
    made = partition(in_sync=(FIRST, THIRD))
    made.leader = made.replicas[THIRD]
    same = partition(in_sync=(FIRST,))
    assert choose_leaders(of_run(made, same)) == [made]
    assert (made.leader.slot, same.leader.slot) == (FIRST, FIRST)


def test_a_new_run_leaves_out_log_dirs_that_are_offline() -> None:
    made = partition(in_sync=(FIRST, THIRD))
    assert choose_leaders(of_run(made, present=(SECOND, THIRD))) == [made]
    assert made.leader.slot == THIRD


def test_a_new_run_elects_no_replica_that_lacks_records() -> None:
    """Its settings are not read yet: a topic that allows unclean elections has one later."""
    made = partition(in_sync=(FIRST,))
    assert choose_leaders(of_run(made, present=(SECOND, THIRD))) == []
    assert made.leader.slot == FIRST


def test_a_new_run_keeps_the_leader_that_is_the_only_replica() -> None:
    alone = Partition("t", 0, "/0", FIRST, 1)
    assert choose_leaders(of_run(alone, present=())) == []
