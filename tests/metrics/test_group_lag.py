"""What counts as lag of a group."""

import pytest

from kbroker.metrics.group_lag import record_lag, whole_topics


@pytest.mark.parametrize(
    ("committed", "log_start", "end", "lag"),
    [(40, 10, 100, 60), (None, 10, 100, 90), (-1, 10, 100, 90), (0, 10, 100, 100), (120, 10, 100, 0)],
)
def test_lag_is_counted_from_the_committed_offset_or_the_log_start(
    committed: int | None, log_start: int, end: int, lag: int
) -> None:
    assert record_lag(committed, log_start, end) == lag


def test_all_partitions_of_the_topics_that_members_read_count() -> None:
    assert whole_topics(["old"], ["orders"], 2) == {"orders"}
    assert whole_topics(["old"], [], 2) == frozenset()


def test_of_a_group_without_members_those_of_topics_with_commits_count() -> None:
    assert whole_topics(["old"], ["orders"], 0) == {"old"}
