"""Log directory by fewest partitions, IO worker by directory, then by load."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.metadata.placement import least_loaded, place, workers_of_dirs
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


def test_directories_share_the_workers_evenly() -> None:
    assert workers_of_dirs(["a", "b"], 1) == {"a": (0,), "b": (0,)}
    assert workers_of_dirs(["a", "b", "c"], 2) == {"a": (0,), "b": (1,), "c": (0,)}
    assert workers_of_dirs(["a", "b"], 4) == {"a": (0, 2), "b": (1, 3)}


def test_the_least_loaded_worker_is_chosen() -> None:
    assert least_loaded((0, 1, 2), {0: 5, 1: 3, 2: 3}) == 1
