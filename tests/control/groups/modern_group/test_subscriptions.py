"""Subscriptions of a group: the existing topics, and their hash, are those of all members, in time
in proportion to what changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.control.groups.modern_group.subscriptions import FEW, NO_NAMES, TOUCHED, Subscriptions
from kbroker.control.groups.topic_view import metadata_hash
from tests.control.groups.coordinator import Topics

NAMES = [f"t{number}" for number in range(12)]
CHOSEN = st.frozensets(st.sampled_from(NAMES))


class Counted(Topics):
    """Counts the look-ups of topics."""

    looked_up = 0

    def id_of(self, name: str) -> bytes | None:
        self.looked_up += 1
        return super().id_of(name)


def view_of(names: frozenset[str]) -> Counted:
    view = Counted()
    for name in sorted(names):
        view.put(name, 1)
    return view


@settings(max_examples=300)
@given(
    changes=st.lists(st.tuples(st.integers(0, 5), CHOSEN, CHOSEN | st.none()), max_size=20),
    topics=CHOSEN,
    gone=st.sets(st.integers(0, 5)),
    new=CHOSEN,
    many=st.booleans(),
)
def test_the_existing_topics_are_those_of_all_members(
    changes: list[tuple[int, frozenset[str], frozenset[str] | None]],
    topics: frozenset[str],
    gone: set[int],
    new: frozenset[str],
    many: bool,
) -> None:
    """Also while members and topics change between two questions."""
    view, found = view_of(topics), Subscriptions()
    members: dict[int, frozenset[str]] = {}
    if many:
        members[9] = frozenset(f"missing {number}" for number in range(FEW + 1))
        found.change(NO_NAMES, members[9])
    for member, names, more in changes:
        found.change(members.get(member, NO_NAMES), names)
        members[member] = names
        for name in more or ():
            view.put(name, 2)
        if more is not None:
            every = frozenset[str]().union(*members.values())
            existing = {name for name in every if Topics.id_of(view, name) is not None}
            assert found.hash(view) == metadata_hash(existing, view)
    every = frozenset[str]().union(*members.values())
    there = {name for name in every | new if Topics.id_of(view, name) is not None}
    assert found.existing(view) == every & there
    assert {name for name in NAMES if name in found} == every & set(NAMES)
    assert set(found) == every
    assert len(found) == len(every)
    rest = [names for member, names in members.items() if member not in gone]
    old = [names for member, names in members.items() if member in gone]
    after = new.union(*rest) & there
    assert found.existing(view, old, [new]) == after
    assert found.hash(view, old, [new]) == metadata_hash(after, view)


def test_members_with_the_same_subscription_cost_nothing_more() -> None:
    """Three thousand may join at once, and each asks for the hash."""
    names = frozenset(f"topic {number}" for number in range(500))
    view, found = view_of(names), Subscriptions()
    found.change(NO_NAMES, names)
    first = found.hash(view)
    view.looked_up = 0
    for _ in range(100):
        joins = found.shared(frozenset(sorted(names)))
        assert joins is names
        assert found.hash(view, (), [joins]) == first
        found.change(NO_NAMES, joins)
    for _ in range(100):
        assert found.hash(view, [names]) == first
        found.change(names, NO_NAMES)
    assert view.looked_up == 0


def test_a_different_subscription_costs_its_own_names() -> None:
    names = frozenset(f"topic {number}" for number in range(500))
    view, found = view_of(names), Subscriptions()
    found.change(NO_NAMES, names)
    found.hash(view)
    view.looked_up = 0
    new = frozenset(["topic 1", "other"])
    assert found.hash(view, (), [new]) == found.hash(view)
    assert view.looked_up <= 2


def test_very_many_changes_are_computed_again() -> None:
    view, found = view_of(frozenset(NAMES)), Subscriptions()
    found.change(NO_NAMES, frozenset(NAMES[:1]))
    found.hash(view)
    found.change(NO_NAMES, frozenset([*NAMES[1:], *(f"missing {number}" for number in range(TOUCHED + 1))]))
    assert found.hash(view) == metadata_hash(NAMES, view)
    assert found.existing(view) == set(NAMES)


def test_nothing_is_kept_of_members_that_left() -> None:
    found = Subscriptions()
    for names in (frozenset(NAMES), frozenset(NAMES[:3])):
        found.change(NO_NAMES, names)
        found.change(names, NO_NAMES)
    assert list(found) == []
    assert not found._members
