"""Of the topics that a group subscribes to, metrics show those that exist."""

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.modern_group.subscriptions import FEW, NO_NAMES
from kbroker.control.groups.share_group.member import SharedTopic
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.summary import existing, topics_of
from tests.control.groups.coordinator import Topics


def test_topics_that_do_not_exist_are_left_out() -> None:
    """A client may subscribe to a million of them."""
    view = Topics()
    for name in ("a", "b", "c"):
        view.put(name, 1)
    missing = {f"missing {number}" for number in range(FEW)}
    assert sorted(existing(view, {"a", "c", "missing"})) == ["a", "c"]
    assert sorted(existing(view, {"a", "c", *missing})) == ["a", "c"]


def test_a_share_group_also_has_the_topics_that_it_has_shared_before() -> None:
    """The console lists the group at each of them, also once it has no members."""
    view = Topics()
    for name in ("a", "b", "again"):
        view.put(name, 1)
    group = ShareGroup("g")
    group.subscriptions.change(NO_NAMES, frozenset({"a", "missing"}))
    ids = {"a": Topics.make_id("a"), "b": Topics.make_id("b"), "again": b"of a deleted one", "gone": b"gone"}
    shared = {topic_id: SharedTopic(name, frozenset({0})) for name, topic_id in ids.items()}
    group.put_states({}, shared, {})
    assert sorted(topics_of(view, group)) == ["a", "b"]
    group.subscriptions.change(frozenset({"a", "missing"}), NO_NAMES)
    assert sorted(topics_of(view, group)) == ["a", "b"]
    assert topics_of(view, ClassicGroup("c", None)) == []
