"""Share sessions: requests come in order, one session per member, no more than allowed."""

import pytest

from kbroker.control.share.sessions import FINAL_EPOCH, ShareSessions
from kbroker.protocol.errors import ErrorCode, KafkaError

ONE, TWO = (bytes(16), 0), (bytes(16), 1)


def test_epochs_count_up_and_wrap_after_the_last() -> None:
    sessions = ShareSessions(10)
    session = sessions.open("g", "a")
    assert sessions.next("g", "a", 1) is session
    assert sessions.next("g", "a", 2) is session
    session.epoch = 2**31 - 1
    sessions.next("g", "a", 2**31 - 1)
    assert sessions.next("g", "a", 1) is session
    assert sessions.next("g", "a", FINAL_EPOCH) is session


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [
        ("a", 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ("b", 1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ("b", FINAL_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_an_unknown_session_or_epoch_is_refused(member: str, epoch: int, code: ErrorCode) -> None:
    sessions = ShareSessions(10)
    sessions.open("g", "a")
    with pytest.raises(KafkaError) as caught:
        sessions.next("g", member, epoch)
    assert caught.value.code == code


def test_a_member_that_starts_over_replaces_its_session() -> None:
    sessions = ShareSessions(1)
    old = sessions.open("g", "a", 1)
    new = sessions.open("g", "a", 2)
    assert (sessions.is_open(old), sessions.is_open(new)) == (False, True)
    assert sessions.on_connection(1) == []
    assert sessions.on_connection(2) == [new]
    with pytest.raises(KafkaError) as caught:
        sessions.open("g", "b")
    assert caught.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.close("g", "a")
    sessions.open("g", "b")
    assert len(sessions) == 1


def test_partitions_take_turns() -> None:
    session = ShareSessions(1).open("g", "a")
    session.change([ONE, TWO], [])
    session.turn()
    assert list(session.partitions) == [TWO, ONE]
    session.change([], [TWO])
    assert list(session.partitions) == [ONE]


def test_a_member_hears_nothing_of_a_partition_that_it_forgot() -> None:
    session = ShareSessions(1).open("g", "a")
    session.change([ONE, TWO], [])
    session.change([], [ONE])
    assert session.unanswered == {TWO}
