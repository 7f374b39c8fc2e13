"""Sessions end; failed logins are few."""

from typing import Any

import pytest

from kbroker.http.console import sessions as module
from kbroker.http.console.sessions import Attempts, LoginPlaces, Sessions, same


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Closing:
    """A caller that remembers whether it was closed."""

    def __init__(self, user: str = "a") -> None:
        self.user = user
        self.closed = False
        self.is_outdated = False

    def close(self) -> None:
        self.closed = True


def begin(sessions: Sessions) -> tuple[Any, Closing]:
    caller = Closing()
    return sessions.begin(caller), caller


def test_a_session_ends_when_it_is_idle() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    session, caller = begin(sessions)
    token = session.token
    clock.now += module.IDLE_S
    assert sessions.of(token) is session
    clock.now += module.IDLE_S + 1
    assert sessions.of(token) is None
    assert caller.closed


def test_a_session_ends_however_busy_it_is() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    session, _ = begin(sessions)
    ends = clock.now + module.MAX_S
    while clock.now <= ends:
        assert sessions.of(session.token) is session
        clock.now += module.IDLE_S
    assert sessions.of(session.token) is None


def test_a_session_ends_when_the_credential_of_its_user_changes() -> None:
    sessions = Sessions(Clock())
    session, caller = begin(sessions)
    token = session.token
    assert sessions.of(token) is session
    caller.is_outdated = True
    assert sessions.of(token) is None
    assert caller.closed


def test_logout_and_unknown_tokens_give_no_session() -> None:
    sessions = Sessions(Clock())
    session, caller = begin(sessions)
    sessions.end(session.token)
    assert sessions.of(session.token) is None
    assert caller.closed
    assert sessions.of("") is None


def test_the_oldest_session_gives_way_when_there_are_too_many() -> None:
    sessions = Sessions(Clock())
    first, caller = begin(sessions)
    for _ in range(module.MAX_SESSIONS):
        last, _ = begin(sessions)
    assert sessions.of(first.token) is None
    assert caller.closed
    assert sessions.of(last.token) is last


def test_a_session_that_was_used_lately_does_not_give_way() -> None:
    sessions = Sessions(Clock())
    first, _ = begin(sessions)
    second, caller = begin(sessions)
    for _ in range(module.MAX_SESSIONS - 2):
        begin(sessions)
    kept, gone = first.token, second.token
    assert sessions.of(kept) is first
    begin(sessions)
    assert caller.closed
    assert sessions.of(kept) is first
    assert sessions.of(gone) is None


def test_a_user_who_logs_in_again_and_again_ends_his_own_sessions() -> None:
    sessions = Sessions(Clock())
    other = sessions.begin(Closing("other"))
    opened = [begin(sessions)[0] for _ in range(3 * module.MAX_SESSIONS)]
    assert sessions.of(other.token) is other
    there = [session for session in opened if sessions.of(session.token)]
    assert there == opened[1 - module.MAX_SESSIONS :]


def test_an_address_that_fails_waits_and_others_do_not() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert [attempts.allowed("a") for _ in range(module.TRIES + 1)] == [True] * module.TRIES + [False]
    assert attempts.allowed("b")
    clock.now += module.PER_S
    assert attempts.allowed("a")


def test_logins_that_succeed_are_not_counted() -> None:
    attempts = Attempts(Clock())
    for number in range(2 * module.TRIES_ALL):
        address = f"10.0.0.{number // 20}"
        assert attempts.allowed(address)
        (attempts.uncount if number % 2 else attempts.succeeded)(address)


def test_all_addresses_together_fail_a_bounded_number_of_times() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    tried = [attempts.allowed(f"10.0.0.{number}") for number in range(200)]
    assert sum(tried) == module.TRIES_ALL + 1, "one of the reserve"
    taken = 0
    for number in range(1000):
        clock.now += module.PER_S / 1000
        taken += attempts.allowed(f"10.0.{1 + number // 250}.{number % 250}")
    assert taken <= module.PER_S / module.RESERVE_S + 1
    clock.now += module.PER_S
    assert attempts.allowed("10.0.0.1")


def failed_by_twelve(clock: Clock) -> Attempts:
    """Twelve addresses have failed as often as they may."""
    attempts = Attempts(clock)
    assert all(attempts.allowed(f"10.0.0.{number % 12}") for number in range(12 * module.TRIES))
    assert not any(attempts.allowed(f"10.0.0.{number}") for number in range(12))
    return attempts


def test_an_address_without_failures_logs_in_however_often_others_fail() -> None:
    clock = Clock()
    attempts = failed_by_twelve(clock)
    assert attempts.allowed("192.0.2.1")
    attempts.succeeded("192.0.2.1")
    assert not attempts.allowed("192.0.2.2"), "not at once after another"
    clock.now += module.RESERVE_S
    assert attempts.allowed("192.0.2.2")
    clock.now += module.RESERVE_S
    assert not attempts.allowed("192.0.2.2"), "it has failed"


def test_an_address_that_has_logged_in_is_only_limited_by_its_own_failures() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert attempts.allowed("192.0.2.1")
    attempts.succeeded("192.0.2.1")
    tried = [attempts.allowed(f"10.0.0.{number}") for number in range(200)]
    assert not tried[-1]
    found = [attempts.allowed("192.0.2.1") for _ in range(module.TRIES + 1)]
    assert found == [True] * module.TRIES + [False]


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    attempts = Attempts(Clock())
    found = [attempts.allowed(f"2001:db8::{number:x}") for number in range(module.TRIES + 1)]
    assert found == [True] * module.TRIES + [False]
    assert attempts.allowed("2001:db8:0:1::1")
    assert all(attempts.allowed(f"::ffff:192.0.2.{number}") for number in range(module.TRIES + 1))
    assert [attempts.allowed("192.0.2.1") for _ in range(module.TRIES)] == [True] * 4 + [False]
    assert [attempts.allowed("fe80::1%eth0") for _ in range(module.TRIES + 1)] == [True] * 5 + [False]


def test_addresses_that_are_refused_are_not_remembered() -> None:
    attempts = failed_by_twelve(Clock())
    tried = [attempts.allowed(f"10.{number >> 8}.{number & 255}.1") for number in range(1000)]
    assert sum(tried) == 1, "the reserve"
    assert len(attempts._failed) == 13


def test_failures_of_the_last_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES", 2)
    attempts = Attempts(Clock(), by_address=1)
    assert attempts.allowed("a")
    assert attempts.allowed("b")
    assert not attempts.allowed("b")
    assert not attempts.allowed("a")
    assert attempts.allowed("c")
    assert not attempts.allowed("a")
    assert not attempts.allowed("c")
    assert attempts.allowed("b"), "it was the last one to try"


def test_secrets_are_the_same_only_when_equal() -> None:
    assert same("abc", "abc")
    assert not same("abd", "abc")
    assert not same(None, "abc")
    assert not same("äöü\udc80", "abc")


def test_places_of_logins_are_of_networks_and_bounded() -> None:
    places = LoginPlaces()
    assert [places.enter(f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    places.leave("2001:db8::7")
    assert places.enter("2001:db8::8")
    others = [places.enter(f"192.0.2.{number}") for number in range(module.LOGINS)]
    assert others == [True] * (module.LOGINS - 2) + [False] * 2
