"""A token bucket, and the time to wait for a rate."""

from kbroker.ipc.rate_limit import MAX_MS, TokenBucket, excess_ms, samples_ms


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
