"""The states of a classic group follow each other as Apache Kafka's do."""

from kbroker.control.groups.classic_state import ClassicState

ALLOWED = {
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("CompletingRebalance", "Stable"),
    ("Stable", "PreparingRebalance"),
}


def test_only_these_changes_are_allowed_and_every_state_may_end_dead() -> None:
    for before in ClassicState:
        for after in ClassicState:
            allowed = after is ClassicState.DEAD or (before, after) in ALLOWED
            assert after.may_follow(before) == allowed, (before, after)
