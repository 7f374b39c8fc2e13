"""Retention decides as Kafka's deleteOldSegments."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.io.partition.retention import LogShape, above_size, below_log_start, keeps_all, too_old
from tests.io.append.plain_append import topic_config


def shape(sizes: list[int], log_start: int = 0, high_watermark: int | None = None) -> LogShape:
    """Segments of ten offsets each, the active one last."""
    end = len(sizes) * 10 if sizes[-1] else (len(sizes) - 1) * 10
    bases = [n * 10 for n in range(len(sizes))]
    return LogShape(bases, sizes, log_start, end, end if high_watermark is None else high_watermark)


def test_size_keeps_at_least_retention_bytes() -> None:
    assert above_size(shape([100, 100, 100, 50]), 250) == 1
    assert above_size(shape([100, 100, 100, 50]), 251) == 0
    assert above_size(shape([100, 100, 100, 50]), 50) == 3
    assert above_size(shape([100, 100, 100, 50]), 0) == 4
    assert above_size(shape([100, 100, 100, 50]), 350) == 0
    assert above_size(shape([100, 100]), -1) == 0


def test_an_empty_active_segment_stays() -> None:
    assert above_size(shape([100, 0]), 0) == 1
    assert too_old(shape([100, 0]), 0, 10**9, lambda n: 0) == 1
    assert too_old(shape([0]), 0, 10**9, lambda n: 0) == 0


def test_the_age_is_read_only_as_far_as_needed() -> None:
    requested: list[int] = []

    def newest(n: int) -> int:
        requested.append(n)
        return [10, 20, 5000, 30][n]

    assert too_old(shape([1, 1, 1, 1]), 1000, 1031, newest) == 2
    assert requested == [0, 1, 2]
    assert too_old(shape([1, 1]), -1, 10**9, lambda n: 0) == 0
    assert too_old(shape([1]), 1000, 1010, lambda n: 10) == 0


def test_a_segment_is_kept_until_its_age_exceeds_retention_ms() -> None:
    assert too_old(shape([1, 1]), 1000, 1010, lambda n: 10) == 0
    assert too_old(shape([1, 1]), 1000, 1011, lambda n: 10) == 2


def test_the_log_start_deletes_what_lies_wholly_below() -> None:
    assert below_log_start(shape([1, 1, 1], log_start=9)) == 0
    assert below_log_start(shape([1, 1, 1], log_start=10)) == 1
    assert below_log_start(shape([1, 1, 1], log_start=29)) == 2
    assert below_log_start(shape([1, 1, 1], log_start=30)) == 2


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 90), st.integers(0, 300))
def test_nothing_at_or_above_the_high_watermark_is_removed(
    sizes: list[int], mark: int, retention: int
) -> None:
    log = shape(sizes, log_start=mark, high_watermark=min(mark, len(sizes) * 10))
    for count in (
        above_size(log, retention),
        too_old(log, 0, 10**9, lambda n: 0),
        below_log_start(log),
    ):
        assert 0 <= count <= len(sizes)
        upper = [*log.bases[1:], log.log_end][count - 1] if count else 0
        assert upper <= log.high_watermark
    kept = sum(sizes[above_size(log, retention) :])
    assert kept >= min(retention, sum(sizes))


def test_a_log_start_beyond_the_high_watermark_deletes_only_up_to_that() -> None:
    assert below_log_start(shape([1, 1, 1], log_start=20, high_watermark=19)) == 1
    assert below_log_start(shape([1, 1, 1], log_start=20, high_watermark=20)) == 2


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=8),
    st.integers(1, 7),
    st.integers(0, 90),
    st.integers(0, 300),
)
def test_the_oldest_segments_alone_are_decided_as_with_all(
    sizes: list[int], most: int, mark: int, retention: int
) -> None:
    log = shape(sizes, log_start=mark, high_watermark=min(mark, len(sizes) * 10))
    most = min(most, len(sizes) - 1)
    some = LogShape(
        log.bases[:most], sizes[:most], mark, most * 10, log.high_watermark, later_bytes=sum(sizes[most:])
    )
    assert above_size(some, retention) == min(most, above_size(log, retention))
    assert below_log_start(some) == min(most, below_log_start(log))
    old = [too_old(each, 0, 10**9, lambda n: 0 if n < 5 else 10**9) for each in (some, log)]
    assert old[0] == min(most, old[1])


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=8),
    st.integers(0, 90),
    st.integers(0, 90),
    st.integers(-1, 300),
    st.integers(-1, 20),
)
def test_a_log_keeps_all_if_its_oldest_segment_stays(
    sizes: list[int], start: int, mark: int, retention_bytes: int, retention_ms: int
) -> None:
    whole = shape(sizes, log_start=start, high_watermark=mark)
    more = len(sizes) > 1
    end, later = (whole.bases[1], sum(sizes[1:])) if more else (whole.log_end, None)
    oldest = LogShape(whole.bases[:1], sizes[:1], start, end, mark, later)
    config = topic_config(retention_bytes=retention_bytes, retention_ms=retention_ms)
    now_ms = 30

    def largest(n: int) -> int:
        return 10 + 7 * n

    deleted = (
        below_log_start(whole)
        or above_size(whole, retention_bytes)
        or too_old(whole, retention_ms, now_ms, largest)
    )
    assert keeps_all(oldest, config, now_ms, largest) == (not deleted)
