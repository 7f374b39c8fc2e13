"""Rows of `reads` from the headers of values: whatever is not of the run has no number."""

import pickle
from typing import Any

import numpy as np

from loadtest.delivered import Decoded, Delivered, described
from loadtest.history import READS
from loadtest.record import HEADER


def heads() -> Any:
    rows = np.zeros(3, HEADER)
    rows["producer"] = [5, 6, 7]
    rows["seq"] = [1 << 40, 2, 3]
    rows["partition_seq"] = [10, 20, 30]
    rows["intended_ns"] = [100, 200, 300]
    rows["flags"] = [1, 3, 4]
    return rows


def delivered() -> Delivered:
    three = np.arange(3)
    return Delivered(
        consumer=9,
        first_position=40,
        topic="t",
        assignments=np.array([11, 12, -1], np.int32),
        decoded=Decoded(
            partitions=np.array([1, 0, 2], np.int32),
            offsets=three + 70,
            timestamps_ms=three + 80,
            keys=three + 90,
            heads=heads(),
            ours=np.array([True, False, True]),
            intact=np.array([True, False, False]),
            header_sums=three + 600,
            size=0,
        ),
        seen_ns=three + 500,
    )


def lists(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in columns.items()}


def test_a_value_that_is_not_ours_has_no_numbers() -> None:
    assert lists(described(heads(), np.array([True, False, True]))) == {
        "producer": [5, -1, 7],
        "seq": [1 << 40, -1, 3],
        "partition_seq": [10, -1, 30],
        "intended_ns": [100, -1, 300],
        "flags": [1, 3, 4],
    }


def test_each_column_of_the_history_is_that_of_its_record() -> None:
    columns = lists(delivered()())
    assert sorted(columns) == sorted(READS.names)
    assert {name: columns[name] for name in columns if name not in described(heads(), np.ones(3, bool))} == {
        "consumer": 9,
        "position": [40, 41, 42],
        "assignment": [12, 11, -1],
        "topic": "t",
        "partition": [1, 0, 2],
        "offset": [70, 71, 72],
        "timestamp_ms": [80, 81, 82],
        "key": [90, 91, 92],
        "intact": [True, False, False],
        "seen_ns": [500, 501, 502],
        "header_sum": [600, 601, 602],
    }


def test_rows_are_computed_in_another_process() -> None:
    assert lists(pickle.loads(pickle.dumps(delivered(), protocol=5))()) == lists(delivered()())
