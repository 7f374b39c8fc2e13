"""A mutation of one topic's history, and the findings that it must lead to: {(anomaly, kind): how
many}."""

from collections.abc import Callable
from typing import NamedTuple

from tests.spark_validation.world import Topic

Expected = dict[tuple[str, str], int]


class Mutation(NamedTuple):
    name: str
    mode: str
    mutate: Callable[[Topic], None]
    expected: Expected
