"""Cached answers: a client that knows of a change never gets an older answer, whichever process
gives it."""

import numpy as np
import pytest

from kbroker.ipc.cached_answers import AnswerVersions, word_of
from kbroker.ipc.layout import AnswerVersion
from tests.models.cached_answers import AnswersModel
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states


def test_no_answer_is_older_than_a_change_its_client_has_seen() -> None:
    found = explore(AnswersModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 5_000
    assert found.states == documented_states("cached_answers")


@pytest.mark.parametrize("bug", ["raised_late", "terms_read_late", "not_compared"])
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="gets an older answer") as broken:
        explore(AnswersModel(**{bug: True}))
    assert broken.value.steps[-1] == "network 0: repeat"


def test_every_change_raises_a_word_that_the_real_terms_name() -> None:
    """The model has one word; each real change raises one of those that an answer of its kind
    carries, at once."""
    versions = AnswerVersions(np.zeros(AnswerVersion.WORDS, np.int64))
    changes = {
        AnswerVersion.TOPICS: (versions.topics_changed,),
        word_of("g"): (versions.topics_changed, lambda: versions.group_changed("g"), versions.groups_changed),
        AnswerVersion.TRANSACTIONS: (versions.topics_changed, lambda: versions.transaction_changed("t")),
        word_of("t"): (versions.topics_changed, lambda: versions.transaction_changed("t")),
    }
    for word, causes in changes.items():
        for cause in causes:
            before = versions.answer(b"\0" * 8, b"body", 0, word).terms
            assert versions.answer(b"\0" * 8, b"body", 0, word).terms == before
            cause()
            assert versions.answer(b"\0" * 8, b"body", 0, word).terms != before
