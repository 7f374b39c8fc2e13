"""Lines about clients are limited in number, and explain what clients send by mistake."""

import logging

import pytest

from kbroker.net.rate_limited_log import BURST, RateLimitedLog, bad_size, not_served


def test_lines_beyond_the_burst_are_counted_and_one_a_second_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    limited = RateLimitedLog(logging.getLogger("kbroker.net"), lambda: now[0])
    for number in range(BURST + 3):
        limited("line %d", number)
    assert caplog.messages == [f"line {number}" for number in range(BURST)]
    caplog.clear()
    now[0] += 0.9
    limited("early")
    now[0] += 0.2
    limited("later")
    assert caplog.messages == ["4 lines about clients were left out", "later"]
    caplog.clear()
    now[0] += 1
    limited("last")
    assert caplog.messages == ["last"]


@pytest.mark.parametrize(
    ("size", "mistake"),
    [
        (-1, ""),
        (101, ""),
        (0x16030100, " (a TLS hello: this listener is not encrypted)"),
        (0x16030501, " (a TLS hello: this listener is not encrypted)"),
        (0x16040100, ""),
        (int.from_bytes(b"GET ", "big"), " (an HTTP request: GET)"),
        (int.from_bytes(b"POST", "big"), " (an HTTP request: POST)"),
        (int.from_bytes(b"OPTI", "big"), " (an HTTP request: OPTI)"),
        (int.from_bytes(b"GETX", "big"), ""),
    ],
)
def test_an_impossible_size_is_explained(size: int, mistake: str) -> None:
    assert bad_size(size, 100) == f"request size {size} is not in 0..100{mistake}"


def test_a_request_that_is_not_served_is_named() -> None:
    assert not_served(7, 3) == "API key 7 version 3 is not served"
