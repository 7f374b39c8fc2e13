"""Words that select groups and transactions, in any case."""

import pytest

from kbroker.cli.failures import UsageFailed
from kbroker.cli.known_words import GROUP_STATES, TRANSACTION_STATES, known_words
from kbroker.control.transactions.state import BY_NAME


def test_words_are_known_in_any_case() -> None:
    assert known_words("--state", ["stable", "EMPTY"], GROUP_STATES) == ["Stable", "Empty"]
    assert known_words("--state", None, GROUP_STATES) == []


def test_another_word_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageFailed, match=r"--state 'Emtpy': expected one of PreparingRebalance, .*Empty"):
        known_words("--state", ["Stable", "Emtpy"], GROUP_STATES)


def test_every_state_of_a_transaction_can_be_requested() -> None:
    assert set(BY_NAME) - {"Dead"} == set(TRANSACTION_STATES)
