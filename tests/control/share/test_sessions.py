"""Share sessions: requests come in order, one session per member, no more than allowed."""

import pytest

from kbroker.control.share import sessions as share_sessions
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
    assert (sessions.end(old), sessions.end(new), sessions.end(new)) == (False, True, False)
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


def test_a_partition_that_a_session_has_already_is_not_new_in_it() -> None:
    session = ShareSessions(1).open("g", "a")
    session.change([ONE, TWO], [])
    session.unanswered.clear()
    session.change([ONE], [])
    assert (list(session.partitions), session.unanswered) == ([ONE, TWO], set())


def test_sessions_have_a_bounded_number_of_partitions_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 3)
    sessions = ShareSessions(10)
    one, other = sessions.open("g", "a"), sessions.open("g", "b")
    sessions.change(one, [ONE, TWO], [])
    sessions.change(other, [ONE], [])
    sessions.change(other, [ONE], [])  # it has that already
    with pytest.raises(KafkaError) as caught:
        sessions.change(other, [TWO], [])
    assert caught.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert list(other.partitions) == [ONE]
    sessions.close("g", "a")
    sessions.change(other, [TWO], [])
    assert list(other.partitions) == [ONE, TWO]


def test_the_end_of_the_last_long_session_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "LONG", 1)
    reported: list[bool] = []
    sessions = ShareSessions(10, reported.append)
    one, other = sessions.open("g", "a"), sessions.open("g", "b")
    sessions.change(one, [ONE], [])
    assert reported == []
    sessions.change(one, [TWO], [])
    sessions.change(other, [ONE, TWO], [])
    assert reported == [True]
    sessions.change(one, [], [TWO])
    assert reported == [True]
    sessions.close("g", "b")
    assert reported == [True, False]


def test_the_partitions_of_a_session_that_has_ended_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 2)
    sessions = ShareSessions(10)
    old = sessions.open("g", "a")
    new = sessions.open("g", "a")
    sessions.change(old, [ONE, TWO], [])
    sessions.change(new, [ONE, TWO], [])
    assert list(new.partitions) == [ONE, TWO]


def test_each_partition_of_a_session_is_taken_once() -> None:
    session = ShareSessions(1).open("g", "a")
    session.change([ONE, TWO], [])
    session.unanswered.discard(ONE)
    assert sorted(session.taken()) == [ONE, TWO]
    assert (session.partitions, session.unanswered) == ({}, set())
