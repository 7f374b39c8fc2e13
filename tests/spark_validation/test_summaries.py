"""Small tables over time that the report draws."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.summaries import NS, STEPS_PER_OCTAVE, percentiles, rate, reach


def row(slot: int, octave: int = 0, count: int = 1) -> dict[str, int]:
    return {"slot": slot, "octave": octave, "count": count}


def middle_ms(octave: int) -> float:
    """Of a bucket of the histogram, whose times are ns."""
    return float(2.0 ** ((octave + 0.5) / STEPS_PER_OCTAVE) / 1e6)


def test_a_rate_is_of_a_second_whatever_the_width_of_its_slot() -> None:
    found = rate([row(0, 1, 10), row(0, 2, 20), row(2, 1, 5), row(-1, 1, 9), row(3, 1, 9)], 3, 5 * NS)
    assert found.tolist() == [6.0, 0.0, 1.0]


def test_percentiles_are_those_of_each_slot() -> None:
    rows = [row(1, 300, 9), row(1, 340, 1), row(0, 320, 1000), row(0, 400, 1), row(2, 1), row(-1, 1)]
    found = percentiles(rows, 2)
    assert {name: line.tolist() for name, line in found.items()} == {
        "p50": pytest.approx([middle_ms(320), middle_ms(300)]),
        "p99": pytest.approx([middle_ms(320), middle_ms(340)]),
        "p99.9": pytest.approx([middle_ms(320), middle_ms(340)]),
        "max": pytest.approx([middle_ms(400), middle_ms(340)]),
    }


def test_a_slot_without_rows_has_no_percentile() -> None:
    assert all(math.isnan(line[0]) for line in percentiles([], 1).values())


def test_half_of_the_rows_reach_the_median() -> None:
    for more, octave in ((5, 300), (6, 340)):
        found = percentiles([row(0, 300, 5), row(0, 340, more)], 1)
        assert found["p50"][0] == pytest.approx(middle_ms(octave))


def test_an_offset_that_was_reached_stays_the_highest_of_its_slot() -> None:
    lines: dict[str, NDArray[np.float64]] = {}
    for slot, offset in ((1, 7), (1, 5), (2, 9), (3, 100), (-1, 100)):
        reach(lines, "t", {"slot": slot, "reached": offset}, 3)
    assert {key: line.tolist() for key, line in lines.items()} == {"t": [-1.0, 7.0, 9.0]}
