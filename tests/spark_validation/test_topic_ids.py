"""Ids of topics in partition.metadata: which of them contradict one another."""

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.checks.topic_ids import ANOTHER, SHARED, UNREADABLE, contradictions


def files(**ids: str) -> dict[tuple[str, int], str]:
    """Content by topic and partition: a letter each, its id."""
    return {
        (topic, partition): f"version: 0\ntopic_id: {known}\n"
        for topic, each in ids.items()
        for partition, known in enumerate(each)
    }


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ({"a": "xx", "b": "y"}, []),
        ({"a": "xxz", "b": "y"}, [("a", 2, ANOTHER)]),
        ({"a": "xz"}, [("a", 0, ANOTHER), ("a", 1, ANOTHER)]),
        ({"a": "xx", "b": "yyx"}, [("b", 2, SHARED)]),
        ({"a": "x", "b": "x"}, [("a", 0, SHARED), ("b", 0, SHARED)]),
    ],
)
def test_the_partitions_that_cannot_be_right_are_named(
    ids: dict[str, str], found: list[tuple[str, int, str]]
) -> None:
    assert [row[:3] for row in contradictions(files(**ids))] == found


@pytest.mark.parametrize("text", ["version: 1\ntopic_id: x\n", "version: 0\n", "nothing"])
def test_a_file_that_is_none_is_named(text: str) -> None:
    assert contradictions({("a", 0): text}) == [("a", 0, UNREADABLE, "")]
