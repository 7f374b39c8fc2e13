"""LoginLimits of passwords: few at once, then a few a second, from all addresses together; who
knows the password is not held up."""

from kbroker.config.broker import BrokerConfig
from kbroker.config.principals import MAX_NAME
from kbroker.control.login_limits import (
    MAX_KEYS,
    MAX_WAIT_S,
    NS,
    OF_ADDRESS,
    OF_USER,
    Allowance,
    LoginLimits,
)


def checked(limits: LoginLimits, seconds: int, users: int, a_second: int = 200) -> int:
    """Passwords that are looked at within so many seconds, of an address that tries as often as it
    can."""
    seen = 0
    for number in range(seconds * a_second):
        now_ns = number * NS // a_second
        wait = limits.attempt("::1", f"user{number % users}", now_ns)
        if wait is not None and now_ns + wait * NS <= seconds * NS:
            seen += 1
    return seen


def test_one_user_is_guessed_at_slowly() -> None:
    assert checked(LoginLimits(), 60, 1) <= OF_USER.at_once + 61 * OF_USER.per_second


def test_an_address_guesses_slowly_whatever_the_users() -> None:
    assert checked(LoginLimits(), 60, 1000) <= OF_ADDRESS.at_once + 61 * OF_ADDRESS.per_second


def test_a_network_of_ipv6_guesses_as_slowly_as_an_address() -> None:
    """A host of it has as many addresses as it likes, one for each guess."""
    limits = LoginLimits()
    waits = [limits.attempt(f"2001:db8::{number:x}", "alice", 0) for number in range(100)]
    assert waits.count(0) == OF_USER.at_once
    assert waits[-1] is None
    assert limits.attempt("2001:db8:0:1::1", "alice", 0) == 0
    limits.succeeded("2001:db8::abc", "alice", 0)
    assert limits.attempt("2001:db8::1", "alice", 0) == 0


def test_a_right_password_never_waits() -> None:
    limits = LoginLimits()
    for number in range(10_000):
        assert limits.attempt("::1", "alice", number) == 0
        limits.succeeded("::1", "alice", number)
    assert limits.attempt("::1", "alice", NS) == 0


def test_a_client_with_a_wrong_password_holds_up_no_other_user_of_its_address() -> None:
    limits = LoginLimits()
    waits = [limits.attempt("::1", "wrong", 0) for _ in range(1000)]
    assert waits[0] == 0
    assert waits[-1] is None
    assert max(wait for wait in waits if wait is not None) <= MAX_WAIT_S
    assert limits.attempt("::1", "alice", 0) == 0
    assert limits.attempt("10.0.0.2", "wrong", 0) == 0


def test_after_a_while_all_is_forgotten_and_memory_is_bounded() -> None:
    limits = LoginLimits()
    for _ in range(1000):
        limits.attempt("::1", "wrong", 0)
    assert limits.attempt("::1", "wrong", 60 * NS) == 0
    for number in range(MAX_KEYS + 1000):
        limits.attempt(str(number), "a", 0)
    assert len(limits._buckets) <= MAX_KEYS


def test_settings_give_other_limits_and_0_none() -> None:
    settings = {"kbroker.login.attempts.user.burst": "2", "kbroker.login.attempts.address.per.second": "0"}
    limits = LoginLimits.of(BrokerConfig.load(settings)[0])
    assert [limits.attempt("::1", "a", 0) for _ in range(4)] == [0, 0, 1, 2]
    assert {limits.attempt("::1", f"user{number}", 0) for number in range(500)} == {0}


def test_long_names_of_users_are_not_kept() -> None:
    """A client may send half a megabyte as a name, again and again."""
    limits = LoginLimits()
    long = "u" * 500_000
    for _ in range(1000):
        limits.attempt("::1", long, 0)
    assert limits.attempt("::1", long, 0) is None
    assert limits.attempt("::1", long + "x", 0) == 0
    assert max(len(user or "") for _, user in limits._buckets) <= MAX_NAME
    limits.succeeded("::1", long, 0)
    assert limits.attempt("::1", long, 0) == 0


def test_an_attempt_waits_for_its_turn_up_to_the_maximum() -> None:
    limits = LoginLimits(Allowance(1, 1), Allowance(1000, 1000))
    waits = [limits.attempt("::1", "a", 0) for _ in range(13)]
    assert waits == [*range(11), None, None]
    assert limits.attempt("::1", "a", 1 * NS) == MAX_WAIT_S
    assert limits.attempt("::1", "a", 1 * NS) is None


def test_a_refused_attempt_takes_no_token() -> None:
    limits = LoginLimits(Allowance(1, 1), Allowance(1000, 1000))
    for _ in range(1000):
        limits.attempt("::1", "a", 0)
    assert limits.attempt("::1", "a", 11 * NS) == 0


def test_the_longer_of_two_waits_counts() -> None:
    limits = LoginLimits(Allowance(1, 1), Allowance(2, 0.5))
    waits = [limits.attempt("::1", user, 0) for user in ("a", "b", "c", "a")]
    assert waits == [0, 0, 2, 4]


def test_a_success_returns_one_token_of_the_address() -> None:
    limits = LoginLimits(Allowance(100, 1), Allowance(2, 1))
    assert [limits.attempt("::1", "a", 0) for _ in range(4)] == [0, 0, 1, 2]
    limits.succeeded("::1", "b", 0)
    assert limits.attempt("::1", "a", 0) == 2
