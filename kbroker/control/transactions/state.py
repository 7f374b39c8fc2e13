"""States of a transaction (Kafka's TransactionState)."""

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """Numbers are those of the transaction log. A state that is being prepared is never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown_as(self) -> str:
        """The name that DescribeTransactions and ListTransactions give it."""
        return _SHOWN_AS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """Whether no transaction is open: a new one may begin, and the id may expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )

    @property
    def is_commit(self) -> bool:
        """Whether the outcome is a commit."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


_SHOWN_AS: Mapping[TransactionState, str] = {
    state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState
}
BY_NAME: Mapping[str, TransactionState] = {state.shown_as: state for state in TransactionState}
