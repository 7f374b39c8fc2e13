"""Logins for the audit log: equal failures share a line, and no client gets many lines a
second."""

from kbroker.config.principals import EVERYBODY
from kbroker.ipc.messages import AuditEvent
from kbroker.net.security.failed_logins import (
    BEYOND,
    LINES_OF_A_HOST,
    LINES_OF_A_USER,
    LINES_OF_ALL,
    MORE_LOGINS,
    SEVERAL_HOSTS,
    FailedLogins,
    RepeatedLogins,
)


def failure(user: str = "x", host: str = "1.2.3.4", port: int = 1, reason: str = "wrong") -> AuditEvent:
    return AuditEvent(7, "login", f"User:{user}", host, port, "SASL", "PLAIN", False, reason=reason)


def test_equal_failures_share_a_line_with_their_count() -> None:
    failed = FailedLogins()
    for port in range(560):
        failed.add(failure(port=port))
    failed.add(failure(reason="expired"))
    first, second = failed.take()
    assert (first.principal, first.host, first.port, first.count) == ("User:x", "1.2.3.4", 0, 560)
    assert (first.time_ms, first.event, first.allowed, first.reason) == (7, "login", False, "wrong")
    assert (second.reason, second.count) == ("expired", 1)
    assert failed.take() == []


def test_an_address_that_guesses_names_has_few_lines_and_none_is_left_out() -> None:
    failed = FailedLogins()
    for number in range(5000):
        failed.add(failure(f"user{number}"))
    failed.add(failure(host="5.6.7.8"))
    found = failed.take()
    assert len(found) == LINES_OF_A_HOST + 2
    (rest,) = [event for event in found if event.reason == BEYOND]
    assert (rest.principal, rest.host, rest.port) == (EVERYBODY, "1.2.3.4", 0)
    assert sum(event.count for event in found) == 5001
    assert [event.count for event in found if event.host == "5.6.7.8"] == [1]


def test_all_addresses_together_have_a_bound() -> None:
    failed = FailedLogins()
    for number in range(20_000):
        failed.add(failure(host=f"10.0.{number >> 8}.{number & 255}"))
    found = failed.take()
    assert len(found) == LINES_OF_ALL + 1
    assert sum(event.count for event in found) == 20_000
    assert [event.count for event in found if event.host == SEVERAL_HOSTS] == [20_000 - LINES_OF_ALL]


def test_the_addresses_of_an_ipv6_network_have_the_lines_of_one() -> None:
    failed = FailedLogins()
    for number in range(5000):
        failed.add(failure(host=f"2001:db8::{number:x}"))
    failed.add(failure(host="5.6.7.8"))
    found = failed.take()
    assert len(found) == LINES_OF_A_HOST + 2
    assert [event.host for event in found if event.reason == BEYOND] == ["2001:db8::/64"]
    assert [event.count for event in found if event.host == "5.6.7.8"] == [1]


def test_a_user_who_logs_in_again_and_again_has_few_lines_and_none_is_left_out() -> None:
    """Before, each had a line: a user without any permission had the oldest file removed."""
    repeated = RepeatedLogins()

    def login(user: str, port: int, host: str = "2001:db8::1") -> bool:
        return repeated.admits(AuditEvent(7 + port, "login", user, host, port, "SASL", "PLAIN", True))

    admitted = [port for port in range(560) if login("User:x", port, f"2001:db8::{port:x}")]
    assert admitted == list(range(LINES_OF_A_USER))
    assert login("User:y", 1)
    (rest,) = repeated.take()
    assert (rest.principal, rest.host, rest.port) == ("User:x", "2001:db8::/64", 0)
    assert (rest.time_ms, rest.allowed, rest.reason) == (7 + LINES_OF_A_USER, True, MORE_LOGINS)
    assert rest.count == 560 - LINES_OF_A_USER
    assert login("User:x", 1)
    assert repeated.take() == []
