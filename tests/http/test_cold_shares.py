"""Bytes from the disk are divided among the groups whose commits pass them."""

from pathlib import Path

import pytest

from kbroker.http import cold_shares
from kbroker.http.cold_shares import ColdShares, divided
from kbroker.ipc.layout import Counter
from tests.http.scene import Scene

GROUPS = ("a", "b")


class Disk:
    """A topic of two partitions, and what the disk gives for it."""

    def __init__(self, folder: Path) -> None:
        self.scene = Scene(folder)
        self.slots = self.scene.topic("t", 2)
        self.shares = ColdShares(self.scene.shared)
        self.note(0)

    def give(self, size: int, partition: int = 0) -> None:
        self.scene.shared.counters[0][self.slots[partition], Counter.COLD_BYTES_OUT] += size

    def note(self, now_s: float) -> None:
        self.shares.note(self.scene.view.directory, now_s)

    def totals(self, now_s: float) -> dict[str, int]:
        self.note(now_s)
        self.shares.settle(GROUPS, now_s)
        return dict(self.shares.totals)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_group_gets_the_bytes_that_it_passes(disk: Disk) -> None:
    """A consumer commits after it has fetched, and commits a part of what it fetched."""
    disk.give(1000)
    assert disk.totals(5) == {}
    disk.shares.claim("a", "t", 0, 300, 10)
    assert disk.totals(10) == {"a": 300}
    disk.shares.claim("a", "t", 0, 900, 15)
    assert disk.totals(15) == {"a": 1000}


def test_groups_share_in_proportion_to_what_they_pass(disk: Disk) -> None:
    disk.give(900)
    disk.shares.claim("a", "t", 0, 1000, 5)
    disk.shares.claim("b", "t", 0, 500, 5)
    assert disk.totals(5) == {"a": 600, "b": 300}


def test_bytes_of_another_partition_are_not_shared(disk: Disk) -> None:
    disk.give(900, partition=1)
    disk.shares.claim("a", "t", 0, 1000, 5)
    assert disk.totals(5) == {}


def test_bytes_that_are_counted_after_the_commit_are_its_too(disk: Disk) -> None:
    """A process counts once a second, and a refresh may be between the commit and that."""
    disk.shares.claim("a", "t", 0, 1000, 5)
    assert disk.totals(5) == {}
    disk.give(1000)
    assert disk.totals(12) == {"a": 1000}
    disk.give(1000)
    assert disk.totals(14) == {"a": 1000}, "a claim that was served is served again"


def test_a_claim_ends(disk: Disk) -> None:
    disk.shares.claim("a", "t", 0, 1000, 5)
    disk.totals(5)
    disk.give(1000)
    assert disk.totals(5 + cold_shares.CLAIM_S + 1) == {}


def test_bytes_that_no_commit_passes_count_for_no_group(disk: Disk) -> None:
    disk.give(1000)
    disk.note(5)
    disk.give(10)
    disk.note(4 + cold_shares.GIVEN_S)
    disk.shares.claim("a", "t", 0, 2000, 6 + cold_shares.GIVEN_S)
    assert disk.totals(6 + cold_shares.GIVEN_S) == {"a": 10}


def test_a_partition_that_nobody_reads_needs_no_memory(disk: Disk) -> None:
    disk.give(1000)
    for second in range(0, int(cold_shares.GIVEN_S), 5):
        disk.give(1)
        disk.note(second)
    (account,) = disk.shares._accounts.values()
    assert len(account.given) <= cold_shares.GIVEN_S / cold_shares.MERGED_S
    disk.totals(3 * cold_shares.GIVEN_S)
    assert not disk.shares._accounts


def test_bytes_from_before_the_first_scrape_count_for_no_group(disk: Disk) -> None:
    disk.give(1000)
    disk.note(5)
    disk.shares.pause()
    disk.give(1000)
    disk.note(300)
    disk.shares.claim("a", "t", 0, 5000, 300)
    assert disk.totals(300) == {}
    disk.give(7)
    assert disk.totals(305) == {"a": 7}


def test_the_counters_of_a_topic_that_was_made_again_begin_at_0(disk: Disk) -> None:
    disk.give(1000)
    disk.note(5)
    disk.give(-900)
    disk.shares.claim("a", "t", 0, 5000, 10)
    assert disk.totals(10) == {"a": 1100}


def test_a_deleted_group_is_forgotten(disk: Disk) -> None:
    disk.give(10)
    disk.shares.claim("a", "t", 0, 10, 5)
    assert disk.totals(5) == {"a": 10}
    disk.shares.settle(("b",), 10)
    assert disk.shares.totals == {}


def test_parts_are_whole_and_add_up() -> None:
    assert divided(10, [1, 1, 1]) == [3, 3, 4]
    assert divided(7, [0, 7]) == [0, 7]
