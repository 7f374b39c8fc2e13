"""Log directory by fewest partitions, IO worker by directory, then by load."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.metadata.placement import (
    least_loaded,
    place,
    place_assigned,
    place_replicas,
    workers_of_dirs,
)
from kbroker.protocol.errors import ErrorCode, KafkaError


def test_new_partitions_go_where_the_fewest_are() -> None:
    assert place(3, ["a", "b"], ["a", "a"]) == ["b", "b", "a"]


def test_equal_directories_are_filled_in_turn() -> None:
    assert place(4, ["a", "b"], []) == ["a", "b", "a", "b"]


def test_partitions_elsewhere_do_not_count() -> None:
    assert place(1, ["a"], ["gone"] * 9) == ["a"]


def test_without_a_directory_there_is_no_place() -> None:
    with pytest.raises(KafkaError) as refused:
        place(1, [], [])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@given(
    st.integers(0, 40),
    st.lists(st.sampled_from("abc"), max_size=30),
    st.lists(st.sampled_from("abc"), min_size=1, unique=True),
)
def test_no_directory_is_passed_over_by_more_than_one(
    count: int, occupied: list[str], dirs: list[str]
) -> None:
    chosen = place(count, dirs, occupied)
    held = Counter(occupied) + Counter(chosen)
    for log_dir in dirs:
        if Counter(chosen)[log_dir]:
            assert all(held[log_dir] <= held[other] + 1 for other in dirs)
    assert len(chosen) == count


SITES = (("a", "b", "c"), ("d",), (), ("e", "f"))


@given(
    st.integers(0, 40),
    st.integers(1, 3),
    st.permutations(SITES),
    st.lists(st.sampled_from("abcdefg"), max_size=60),
)
def test_each_replica_goes_where_the_fewest_are_on_the_next_site(
    count: int, factor: int, sites: list[tuple[str, ...]], occupied: list[str]
) -> None:
    """One by one, in plain words: the first leader is on the site that holds least."""
    held = Counter(occupied)
    usable = [site for site in sites if site]
    first = usable.index(min(usable, key=lambda site: sum(held[log_dir] for log_dir in site)))
    expected = []
    for number in range(count):
        turn = (usable * 2)[(first + number) % 3 :][:factor]
        expected.append([sorted(site, key=lambda log_dir: (held[log_dir], log_dir))[0] for site in turn])
        held.update(expected[-1])
    assert list(place_replicas(count, factor, sites, Counter(occupied))) == expected
    assert list(place_replicas(count, factor, sites, occupied)) == expected


@given(
    st.lists(st.lists(st.sampled_from((0, 1, 3)), min_size=1, max_size=3, unique=True), max_size=20),
    st.lists(st.sampled_from("abcdefg"), max_size=60),
)
def test_each_assigned_replica_goes_where_the_fewest_are_on_its_site(
    assignments: list[list[int]], occupied: list[str]
) -> None:
    held = Counter(occupied)
    expected = []
    for nodes in assignments:
        found = [sorted(SITES[node], key=lambda log_dir: (held[log_dir], log_dir))[0] for node in nodes]
        expected.append(found)
        held.update(found)
    assert place_assigned(assignments, dict(enumerate(SITES)), occupied) == expected


def test_too_few_sites_are_refused_before_anything_is_placed() -> None:
    with pytest.raises(KafkaError) as refused:
        place_replicas(1, 4, SITES, [])
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError) as refused:
        place_assigned([[0], [2]], dict(enumerate(SITES)), [])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_directories_share_the_workers_evenly() -> None:
    assert workers_of_dirs(["a", "b"], 1) == {"a": (0,), "b": (0,)}
    assert workers_of_dirs(["a", "b", "c"], 2) == {"a": (0,), "b": (1,), "c": (0,)}
    assert workers_of_dirs(["a", "b"], 4) == {"a": (0, 2), "b": (1, 3)}


def test_the_least_loaded_worker_is_chosen() -> None:
    assert least_loaded((0, 1, 2), {0: 5, 1: 3, 2: 3}) == 1
    assert least_loaded((2,), {0: 5, 1: 3}) == 2
