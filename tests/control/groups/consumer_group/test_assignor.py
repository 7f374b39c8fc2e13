"""The assignors, for any group: everything assigned once, to subscribers, evenly, and sticky."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kbroker.control.groups.consumer_group import uniform_assignor
from kbroker.control.groups.consumer_group.assignor import Subscriber, is_homogeneous
from kbroker.control.groups.consumer_group.range_assignor import assign_ranges
from kbroker.control.groups.consumer_group.uniform_assignor import assign_uniformly
from kbroker.control.groups.modern_group.partitions import Partitions

TOPICS = [bytes([number]) * 16 for number in range(4)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)


@st.composite
def homogeneous(draw: st.DrawFn) -> tuple[list[str], dict[bytes, int]]:
    names = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    return names, draw(COUNTS)


@st.composite
def any_group(draw: st.DrawFn) -> tuple[list[Subscriber], dict[bytes, int]]:
    counts = draw(COUNTS)
    members = [
        Subscriber(
            f"m{number}",
            draw(st.none() | st.just(f"i{number}")),
            frozenset(draw(st.sets(st.sampled_from(sorted(counts))))),
            {},
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    return members, counts


def owners(assignment: Mapping[str, Partitions]) -> dict[tuple[bytes, int], str]:
    found: dict[tuple[bytes, int], str] = {}
    for member_id, topics in assignment.items():
        for topic_id, partitions in topics.items():
            for partition in partitions:
                assert (topic_id, partition) not in found, "assigned twice"
                found[topic_id, partition] = member_id
    return found


def check_complete(
    members: list[Subscriber], counts: dict[bytes, int], assignment: Mapping[str, Partitions]
) -> None:
    """Every subscribed partition is assigned, to a subscriber."""
    topics_of = {member.member_id: member.topics for member in members}
    found = owners(assignment)
    expected = set().union(*topics_of.values())
    assert set(found) == {(topic, index) for topic in expected for index in range(counts[topic])}
    assert all(topic in topics_of[member_id] for (topic, _), member_id in found.items())


def subscribers(
    names: list[str], counts: dict[bytes, int], current: Mapping[str, Partitions]
) -> list[Subscriber]:
    return [Subscriber(name, None, frozenset(counts), current.get(name, {})) for name in names]


@given(any_group())
def test_every_partition_goes_to_one_subscriber(group: tuple[list[Subscriber], dict[bytes, int]]) -> None:
    members, counts = group
    for assignor in (assign_ranges, assign_uniformly):
        check_complete(members, counts, assignor(members, counts))


@given(homogeneous())
def test_uniform_shares_differ_by_at_most_one(group: tuple[list[str], dict[bytes, int]]) -> None:
    names, counts = group
    assignment = assign_uniformly(subscribers(names, counts, {}), counts)
    sizes = [sum(map(len, assignment[name].values())) for name in names]
    assert max(sizes) - min(sizes) <= 1


@given(homogeneous(), st.data())
def test_uniform_moves_only_what_balance_asks_for(
    group: tuple[list[str], dict[bytes, int]], data: st.DataObject
) -> None:
    names, counts = group
    before = assign_uniformly(subscribers(names, counts, {}), counts)
    left = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    names = left + [f"new{number}" for number in range(data.draw(st.integers(0, 3)))]
    members = subscribers(names, counts, before)
    after = assign_uniformly(members, counts)
    check_complete(members, counts, after)
    sizes = {name: sum(map(len, after[name].values())) for name in names}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for name in left:
        kept = sum(len(before[name].get(topic, frozenset()) & each) for topic, each in after[name].items())
        had = sum(map(len, before[name].values()))
        assert kept == min(had, sizes[name]), "a member gives up only what is above its share"


@given(homogeneous())
def test_uniform_does_not_move_anything_in_a_balanced_group(
    group: tuple[list[str], dict[bytes, int]],
) -> None:
    names, counts = group
    before = assign_uniformly(subscribers(names, counts, {}), counts)
    assert assign_uniformly(subscribers(names, counts, before), counts) == before


@given(any_group())
def test_uniform_with_different_subscriptions_cannot_be_evened_out_further(
    group: tuple[list[Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = assign_uniformly(members, counts)
    load = {member.member_id: sum(map(len, assignment[member.member_id].values())) for member in members}
    for (topic, _), giver in owners(assignment).items():
        receivers = [member.member_id for member in members if topic in member.topics]
        assert load[giver] - min(load[each] for each in receivers) <= 1


def test_uniform_takes_what_a_member_no_longer_subscribes_to() -> None:
    topic, other = TOPICS[:2]
    members = [
        Subscriber("a", None, frozenset((other,)), {topic: frozenset((0,))}),
        Subscriber("b", None, frozenset((topic,)), {}),
    ]
    assert owners(assign_uniformly(members, {topic: 1, other: 0})) == {(topic, 0): "b"}


def test_uniform_lets_one_of_two_members_keep_what_both_have() -> None:
    """Members report it while a partition passes from one to the other."""
    topic, other = TOPICS[:2]
    for topics in (frozenset((topic,)), frozenset((topic, other))):
        members = [
            Subscriber("a", None, frozenset((topic,)), {topic: frozenset((0, 1))}),
            Subscriber("b", None, topics, {topic: frozenset((1,))}),
        ]
        found = assign_uniformly(members, {topic: 2, other: 0})
        assert sorted(owners(found)) == [(topic, 0), (topic, 1)]
        assert {name: len(each[topic]) for name, each in found.items()} == {"a": 1, "b": 1}


def test_uniform_gives_away_first_what_few_may_have_so_that_nothing_moves_later() -> None:
    narrow, wide = TOPICS[:2]
    members = [
        Subscriber("a", None, frozenset((narrow, wide)), {wide: frozenset((2,))}),
        Subscriber("b", None, frozenset((wide,)), {}),
    ]
    assert assign_uniformly(members, {narrow: 1, wide: 3}) == {
        "a": {narrow: frozenset((0,)), wide: frozenset((2,))},
        "b": {wide: frozenset((0, 1))},
    }


def test_uniform_leaves_the_odd_partition_with_who_has_it() -> None:
    topic = TOPICS[0]
    current = {"a": {topic: frozenset((0,))}, "b": {topic: frozenset((1, 2))}}
    assert assign_uniformly(subscribers(["a", "b"], {topic: 3}, current), {topic: 3}) == current


def test_uniform_moves_from_a_member_that_has_two_more_and_not_from_one_that_has_one_more() -> None:
    topic, other = TOPICS[:2]
    both, one = frozenset((topic, other)), frozenset((topic,))

    def sizes(first: int, second: int) -> list[int]:
        members = [
            Subscriber("a", None, both, {topic: frozenset(range(first))}),
            Subscriber("b", None, one, {topic: frozenset(range(first, first + second))}),
        ]
        found = assign_uniformly(members, {topic: first + second, other: 0})
        return [len(found[name].get(topic, ())) for name in "ab"]

    assert sizes(4, 2) == [3, 3]
    assert sizes(3, 2) == [3, 2]
    assert sizes(2, 3) == [2, 3]
    assert sizes(0, 7) == [3, 4]


def test_uniform_evens_out_in_as_many_rounds_as_it_takes() -> None:
    """Only b can take from a, and only c from b: once b has given, it has room for more."""
    first, second = TOPICS[:2]
    members = [
        Subscriber("a", None, frozenset((first,)), {first: frozenset(range(9))}),
        Subscriber("b", None, frozenset((first, second)), {second: frozenset(range(9))}),
        Subscriber("c", None, frozenset((second,)), {}),
    ]
    found = assign_uniformly(members, {first: 9, second: 9})
    assert [sum(map(len, found[name].values())) for name in "abc"] == [7, 6, 5]


def plainly_balanced(members: list[Subscriber], counts: dict[bytes, int]) -> dict[str, int]:
    """Partitions of each member when each goes to the least loaded reader, and then moves while
    that makes the load more even: with a look at all readers each time."""
    kept: dict[str, dict[bytes, set[int]]] = {member.member_id: {} for member in members}
    readers = {topic: [each.member_id for each in members if topic in each.topics] for topic in counts}
    load = dict.fromkeys(kept, 0)
    free = [(topic, index) for topic, count in counts.items() for index in range(count)]
    for topic, index in sorted(free, key=lambda each: len(readers[each[0]])):
        if readers[topic]:
            receiver = min(readers[topic], key=load.__getitem__)
            kept[receiver].setdefault(topic, set()).add(index)
            load[receiver] += 1
    moved = True
    while moved:
        moved = False
        for giver in sorted(load, key=load.__getitem__, reverse=True):
            for topic in list(kept[giver]):
                while kept[giver][topic]:
                    receiver = min(readers[topic], key=load.__getitem__)
                    if load[giver] - load[receiver] < 2:
                        break
                    index = max(kept[giver][topic])
                    kept[giver][topic].discard(index)
                    kept[receiver].setdefault(topic, set()).add(index)
                    load[giver] -= 1
                    load[receiver] += 1
                    moved = True
    return load


@given(any_group())
def test_uniform_loads_are_those_of_a_look_at_all_readers(
    group: tuple[list[Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    if is_homogeneous(members):
        return
    found = assign_uniformly(members, counts)
    assert {name: sum(map(len, each.values())) for name, each in found.items()} == plainly_balanced(
        members, counts
    )


def test_uniform_ends_after_some_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a chain of members, each of which shares a topic with the next, load moves one place a
    round."""
    topics = [f"{number:016}".encode() for number in range(200)]
    members = [
        Subscriber(f"m{number}", None, frozenset(topics[number : number + 2]), {}) for number in range(199)
    ]
    members[0] = replace(members[0], current={topics[0]: frozenset(range(5000))})
    counts = dict.fromkeys(topics, 1) | {topics[0]: 5000}
    rounds = 0

    def counted(*given: Any) -> bool:
        nonlocal rounds
        rounds += 1
        return even_out(*given)

    even_out = uniform_assignor._even_out
    monkeypatch.setattr(uniform_assignor, "_even_out", counted)
    found = assign_uniformly(members, counts)
    assert rounds <= uniform_assignor.MAX_ROUNDS
    check_complete(members, counts, found)


def test_ranges_are_neighbours_in_the_order_of_the_members() -> None:
    topic, other = TOPICS[:2]
    both = frozenset((topic, other))
    members = [
        Subscriber("b", None, both, {}),
        Subscriber("z", "i1", both, {}),
        Subscriber("a", None, both, {}),
    ]
    assert assign_ranges(members, {topic: 5, other: 2}) == {
        "z": {topic: frozenset((0, 1)), other: frozenset((0,))},
        "a": {topic: frozenset((2, 3)), other: frozenset((1,))},
        "b": {topic: frozenset((4,))},
    }
