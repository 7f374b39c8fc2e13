"""Of the topics that a group subscribes to, metrics show those that exist."""

from kbroker.control.groups.modern_group.subscriptions import FEW
from kbroker.control.groups.summary import existing
from tests.control.groups.coordinator import Topics


def test_topics_that_do_not_exist_are_left_out() -> None:
    """A client may subscribe to a million of them."""
    view = Topics()
    for name in ("a", "b", "c"):
        view.put(name, 1)
    missing = {f"missing {number}" for number in range(FEW)}
    assert sorted(existing(view, {"a", "c", "missing"})) == ["a", "c"]
    assert sorted(existing(view, {"a", "c", *missing})) == ["a", "c"]
