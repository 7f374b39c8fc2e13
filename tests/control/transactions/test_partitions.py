"""Partitions of a transaction are a set, whatever the order in which they join."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.transactions.partitions import NO_PARTITIONS, TransactionPartitions

PARTITIONS = st.frozensets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 12)))
Found = frozenset[tuple[str, int]]
ONE = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12))


@given(PARTITIONS, PARTITIONS, ONE)
def test_they_are_a_set(some: Found, others: Found, one: tuple[str, int]) -> None:
    mine, yours = TransactionPartitions.of(some), TransactionPartitions.of(others)
    alone = TransactionPartitions.of([one])
    assert list(mine) == sorted(some)
    assert len(mine) == len(some)
    assert bool(mine) is bool(some)
    assert mine == some
    assert (mine == yours) is (some == others)
    assert (mine <= yours) is (some <= others)
    assert (mine <= others) is (some <= others)
    assert (alone <= mine) is (one in mine) is (one in some)
    assert mine.joined(yours) == some | others
    assert mine.joined(alone) == some | {one}
    assert mine.without(yours) == some - others
    assert mine.without([one]) == some - {one}


@given(st.lists(ONE))
def test_partitions_that_join_one_after_the_other_are_kept_in_order(added: list[tuple[str, int]]) -> None:
    joined = NO_PARTITIONS
    for one in added:
        joined = joined.joined(TransactionPartitions.of([one]))
    expected = {name: tuple(sorted({index for topic, index in added if topic == name})) for name, _ in added}
    assert joined.by_topic == expected


def test_a_topic_whose_partitions_have_all_gone_is_not_kept() -> None:
    both = TransactionPartitions.of([("a", 1), ("b", 2), ("a", 1)])
    assert both.without([("a", 1)]).by_topic == {"b": (2,)}
    assert both.by_topic == {"a": (1,), "b": (2,)}, "it does not change"
    assert NO_PARTITIONS.by_topic == {}
