"""The lists of waiting rows do what Python's lists do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbroker.purgatory.delayed_produce_layout import DelayedList, DelayedProduce
from kbroker.purgatory.watch_list_kernel import unwatch, watch

ROWS, LISTS = 12, 3


def listed(delayed: np.ndarray, lists: np.ndarray, which: int) -> list[int]:
    """Numbers of the rows in a list, by its links."""
    found = []
    number = int(lists[which, DelayedList.HEAD])
    while number:
        found.append(number)
        number = int(delayed[number, DelayedProduce.NEXT])
    return found


@given(st.lists(st.tuples(st.integers(0, LISTS - 1), st.integers(0, ROWS)), max_size=60))
def test_rows_come_out_from_anywhere_and_the_rest_keeps_its_order(steps: list[tuple[int, int]]) -> None:
    delayed = DelayedProduce.table(ROWS)
    lists = DelayedList.table(LISTS)
    model: list[list[int]] = [[] for _ in range(LISTS)]
    free = list(range(1, ROWS))
    for which, choice in steps:
        waiting = model[which]
        if free and choice >= len(waiting):
            number = free.pop()
            watch(delayed, lists, which, number)
            waiting.append(number)
        elif waiting:
            at = choice % len(waiting)
            following = unwatch(delayed, lists, which, waiting[at - 1] if at else 0, waiting[at])
            free.append(waiting.pop(at))
            assert following == (waiting[at] if at < len(waiting) else 0)
        for n in range(LISTS):
            assert listed(delayed, lists, n) == model[n]
            assert lists[n, DelayedList.TAIL] == (model[n][-1] if model[n] else 0)
