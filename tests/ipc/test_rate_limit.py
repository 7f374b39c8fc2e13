"""A token bucket, the time to wait for a rate, and the lines of a second: few for each client, few
in total, and no event is left out."""

from kbroker.ipc.rate_limit import MAX_MS, LineLimits, TokenBucket, excess_ms, samples_ms


def test_a_bucket_is_full_at_first_and_fills_up_to_its_capacity() -> None:
    bucket = TokenBucket(10, 2, now_s=100)
    bucket.take(4)
    assert bucket.refill(101) == 8
    assert bucket.refill(1000) == 10
    bucket.add(5)
    assert bucket.tokens == 10


def test_tokens_taken_in_advance_are_waited_for() -> None:
    bucket = TokenBucket(1, 2, now_s=0)
    bucket.take(5)
    assert (bucket.wait_s(0), bucket.wait_s(1)) == (2, 2.5)
    bucket.refill(2.5)
    assert bucket.wait_s(1) == 0


def test_the_smallest_limit_is_waited_for_no_longer_than_an_answer_can_say() -> None:
    assert excess_ms(1, 5e-324, 10_000) == MAX_MS
    bucket = TokenBucket(0, 5e-324, now_s=0)
    assert bucket.wait_ms() == 0
    bucket.take()
    assert bucket.wait_ms() == MAX_MS


def test_a_rate_above_the_limit_is_waited_for_until_it_is_the_limit() -> None:
    elapsed_ms = samples_ms(11, 1000, into_ms=0)
    assert elapsed_ms == 10_000
    assert excess_ms(100, 10, elapsed_ms) == 0
    assert excess_ms(150, 10, elapsed_ms) == 5000  # 150 in 15 s are 10 a second
    assert samples_ms(1, 1000, 0) == 1


def test_a_bucket_is_refilled_once_for_each_moment() -> None:
    bucket = TokenBucket(10, 2, now_s=100)
    bucket.take(8)
    assert [bucket.refill(101), bucket.refill(101), bucket.refill(101.5)] == [4, 4, 5]
    bucket.take()
    assert bucket.tokens == 4


def test_a_wait_is_rounded_to_whole_milliseconds() -> None:
    bucket = TokenBucket(1, 3, now_s=0)
    bucket.take(2)
    assert bucket.wait_ms() == 333
    assert bucket.wait_s(0) == 1 / 3
    bucket.add(1)
    assert (bucket.wait_ms(), bucket.wait_s()) == (0, 1 / 3)


def test_samples_cover_their_windows_and_the_beginning_of_the_last() -> None:
    assert samples_ms(11, 1000, 999) == 10_999
    assert samples_ms(1, 1000, 700) == 700
    assert samples_ms(2, 500, 0) == 500


def test_a_rate_at_the_limit_is_not_waited_for() -> None:
    assert [excess_ms(total, 10, 1000) for total in (9, 10, 11, 20)] == [0, 0, 100, 1000]
    assert excess_ms(0, 0.5, 1000) == 0


def added(limits: LineLimits[str], *names: str) -> list[str]:
    """The lines of events of the clients that the names begin with."""
    return [limits.add(name, name[0], f"{name[0]}*", "*") for name in names]


def test_equal_events_share_a_line() -> None:
    limits: LineLimits[str] = LineLimits(1, 2)
    assert added(limits, "a1", "a1", "b1", "a1") == ["a1", "a1", "b1", "a1"]
    assert limits.take() == {"a1": 3, "b1": 1}


def test_events_of_a_client_beyond_its_limit_share_a_line() -> None:
    limits: LineLimits[str] = LineLimits(2, 9)
    assert added(limits, "a1", "a2", "a3", "b1", "a4", "a1") == ["a1", "a2", "a*", "b1", "a*", "a1"]
    assert list(limits.take().items()) == [("a1", 2), ("a2", 1), ("a*", 2), ("b1", 1)]


def test_events_beyond_the_limit_of_all_clients_share_a_line() -> None:
    limits: LineLimits[str] = LineLimits(1, 2)
    assert added(limits, "a1", "b1", "c1", "a2", "d1", "b1") == ["a1", "b1", "*", "*", "*", "b1"]
    assert limits.take().total() == 6


def test_an_event_without_a_line_to_share_begins_one_within_the_limits() -> None:
    limits: LineLimits[str] = LineLimits(2, 3)
    assert [limits.begins(client) for client in "aaabb"] == [True, True, False, True, False]


def test_each_second_begins_at_zero() -> None:
    limits: LineLimits[str] = LineLimits(1, 1)
    assert added(limits, "a1", "b1") == ["a1", "*"]
    limits.take()
    assert added(limits, "b1") == ["b1"]
    limits.take()
    assert limits.begins("b")
    assert limits.take() == {}


def test_an_event_may_count_several_times() -> None:
    limits: LineLimits[str] = LineLimits(1, 1)
    limits.add("a1", "a", "a*", "*", 7)
    assert limits.take() == {"a1": 7}
