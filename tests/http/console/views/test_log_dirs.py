"""Log dirs as the console lists them: their largest partitions, and the space of their disks."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.log_dirs import LARGEST, LOG_DIRS, log_dirs
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.http.console.schemas import problems

SPACE = {"path": "/a", "size_bytes": 900, "free_bytes": 100, "full_in_s": 60}


def result(path: str, *sizes: int, error: int = 0, moving: bool = False) -> DescribeLogDirsResult:
    """A log dir whose topic t has partitions of these sizes, and u one of 5 bytes."""
    parts = [DescribeLogDirsPartition(at, size, 0, moving) for at, size in enumerate(sizes)]
    last = DescribeLogDirsTopic("u", [DescribeLogDirsPartition(0, 5, 0, False)])
    topics = [last, DescribeLogDirsTopic("t", parts)] if sizes else []
    return DescribeLogDirsResult(error_code=error, log_dir=path, topics=topics)


def listed(*results: DescribeLogDirsResult, nodes: tuple[int, ...] = (1,), error: int = 0) -> Any:
    answer = DescribeLogDirsResponse(error_code=error, results=list(results))
    request: Any = SimpleNamespace(
        live=SimpleNamespace(latest=lambda: {"log_dirs": [SPACE]}),
        nodes=nodes,
        caller=SimpleNamespace(ask=lambda *_, node: answer),
    )
    found = log_dirs(cast(Request, request))
    assert problems(found, LOG_DIRS) == []
    return found["log_dirs"]


def test_the_largest_partitions_come_first_then_by_name() -> None:
    (row,) = listed(result("/a", 5, 9, 5))
    assert [(each["topic"], each["partition"], each["bytes"]) for each in row["largest"]] == [
        ("t", 1, 9),
        ("t", 0, 5),
        ("t", 2, 5),
        ("u", 0, 5),
    ]
    assert (row["partition_count"], row["partition_bytes"]) == (4, 24)


def test_all_partitions_are_counted_and_few_are_listed() -> None:
    (row,) = listed(result("/a", *range(1, LARGEST + 10)))
    assert (row["partition_count"], len(row["largest"])) == (LARGEST + 10, LARGEST)
    assert row["partition_bytes"] == sum(range(1, LARGEST + 10)) + 5


def test_a_log_dir_has_the_space_of_its_disk_if_that_is_known() -> None:
    known, other = listed(result("/a"), result("/b"))
    assert (known["size_bytes"], known["free_bytes"], known["full_in_s"]) == (900, 100, 60)
    assert (other["size_bytes"], other["free_bytes"], other["full_in_s"]) == (None, None, None)


def test_a_failed_log_dir_is_offline_and_names_its_error() -> None:
    good, bad = listed(result("/a"), result("/b", error=56))
    assert (good["online"], good["error"]) == (True, None)
    assert (bad["online"], bad["error"]) == (False, "KAFKA_STORAGE_ERROR")


def test_each_node_is_asked() -> None:
    assert [row["node"] for row in listed(result("/a"), nodes=(4, 5))] == [4, 5]


def test_a_partition_that_moves_is_marked() -> None:
    (row,) = listed(result("/a", 9, moving=True))
    assert [each["moving"] for each in row["largest"]] == [True, False]


def test_a_refused_list_of_log_dirs_is_refused() -> None:
    with pytest.raises(Refusal, match="log dirs: ") as refused:
        listed(error=31)
    assert refused.value.status == 403
