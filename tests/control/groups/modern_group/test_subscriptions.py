"""Subscriptions by name: those that exist are found as by a look at all members."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.control.groups.modern_group.subscriptions import FEW, NO_NAMES, Subscriptions
from tests.control.groups.coordinator import Topics

NAMES = [f"t{number}" for number in range(12)]
CHOSEN = st.frozensets(st.sampled_from(NAMES))


def view_of(names: frozenset[str]) -> Topics:
    view = Topics()
    for name in sorted(names):
        view.put(name, 1)
    return view


@settings(max_examples=300)
@given(
    changes=st.lists(st.tuples(st.integers(0, 5), CHOSEN), max_size=20),
    topics=CHOSEN,
    gone=st.sets(st.integers(0, 5)),
    new=CHOSEN,
    many=st.booleans(),
)
def test_the_existing_topics_are_those_of_all_members(
    changes: list[tuple[int, frozenset[str]]],
    topics: frozenset[str],
    gone: set[int],
    new: frozenset[str],
    many: bool,
) -> None:
    view, found = view_of(topics), Subscriptions()
    members: dict[int, frozenset[str]] = {}
    if many:
        members[9] = frozenset(f"missing {number}" for number in range(FEW + 1))
        found.change(NO_NAMES, members[9])
    for member, names in changes:
        found.change(members.get(member, NO_NAMES), names)
        members[member] = names
    every = frozenset[str]().union(*members.values())
    assert found.existing(view) == every & topics
    assert found.total == sum(map(len, members.values()))
    assert {name for name in NAMES if name in found} == every & set(NAMES)
    rest = [names for member, names in members.items() if member not in gone]
    old = [names for member, names in members.items() if member in gone]
    assert found.existing(view, old, new) == new.union(*rest) & topics


def test_nothing_is_kept_of_members_that_left() -> None:
    found = Subscriptions()
    for names in (frozenset(NAMES), frozenset(NAMES[:3])):
        found.change(NO_NAMES, names)
        found.change(names, NO_NAMES)
    assert not found._counts
    assert found.total == 0
