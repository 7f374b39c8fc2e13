"""Consumers whose rows are gone in portions, by the numbers of their deliveries."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from loadtest.run import ConsumerClient, PartitionEnds, Run, Topic
from spark_validation.lossy_consumers import _is_lossy

RUN = Run(7, 1, "h:1", "kbroker", 5, {}, [Topic("t", 3, "plain")])
RUN.ends = {"t": {"0": PartitionEnds(0, 10, 10), "1": PartitionEnds(4, 5, 5), "2": PartitionEnds(6, 6, 6)}}


def span(file: str, first: int, last: int, rows: int | None = None, partition: int = 0) -> dict[str, Any]:
    """Rows first..last of a file and partition, all of them unless their number is given."""
    count = last - first + 1 if rows is None else rows
    return {
        "file": file, "first": first, "last": last, "rows": count, "topic": "t", "partition": partition
    }  # fmt: skip


def is_lossy(*spans: dict[str, Any], role: str = "load", delivered: int | None = None) -> bool:
    client = ConsumerClient(1, None, role, ["t"], "read_committed", "earliest", 1, 5, delivered=delivered)
    rows: Any = list(spans)
    return _is_lossy(RUN, client, rows)


def test_files_that_follow_one_another_are_whole() -> None:
    assert not is_lossy()
    assert not is_lossy(span("b", 5, 9), span("a", 0, 4))
    assert not is_lossy(span("a", 0, 9), span("b", 3, 5), span("c", 10, 12))
    assert not is_lossy(span("a", 0, 9), span("b", 3, 5), delivered=10)


def test_a_file_that_is_gone_leaves_a_gap() -> None:
    assert is_lossy(span("a", 0, 4), span("c", 6, 9))
    assert is_lossy(span("b", 1, 9))


def test_partitions_of_a_file_fill_it_together() -> None:
    assert not is_lossy(span("a", 0, 8, 5), span("a", 1, 9, 5, partition=1), span("b", 10, 10))
    assert is_lossy(span("a", 0, 8, 5), span("a", 1, 9, 5, partition=1), span("b", 11, 11))


@pytest.mark.parametrize(("delivered", "lossy"), [(None, False), (9, False), (10, False), (11, True)])
def test_the_last_rows_are_missed_by_their_count(delivered: int | None, lossy: bool) -> None:
    assert is_lossy(span("a", 0, 9), delivered=delivered) is lossy


def test_a_client_that_was_given_records_and_has_no_row_is_lossy() -> None:
    assert is_lossy(delivered=1)
    assert not is_lossy(delivered=0)


def test_a_drain_without_any_row_of_a_partition_is_lossy_where_rows_are_missing() -> None:
    """A partition may be skipped by the broker: then no number is missing."""
    assert is_lossy(span("a", 0, 9, 9), role="drain")
    assert not is_lossy(span("a", 0, 9, 9))
    assert not is_lossy(span("a", 0, 9, 10), role="drain")
    assert not is_lossy(span("a", 0, 8, 7), span("a", 1, 9, 2, partition=1), role="drain")
