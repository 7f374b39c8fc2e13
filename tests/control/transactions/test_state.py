"""States of a transaction: Kafka's numbers and names, and their kinds."""

from kbroker.control.transactions.state import BY_NAME, TransactionState


def test_numbers_are_those_of_the_transaction_log() -> None:
    assert [(state.value, state.shown_as) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]
    assert {name: BY_NAME[name].shown_as for name in BY_NAME} == {name: name for name in BY_NAME}
    assert len(BY_NAME) == len(TransactionState)


def test_each_kind_has_its_states() -> None:
    found = {
        kind: [state.shown_as for state in TransactionState if getattr(state, kind)]
        for kind in ("is_prepared", "is_over", "is_commit")
    }
    assert found == {
        "is_prepared": ["PrepareCommit", "PrepareAbort"],
        "is_over": ["Empty", "CompleteCommit", "CompleteAbort"],
        "is_commit": ["PrepareCommit", "CompleteCommit"],
    }
