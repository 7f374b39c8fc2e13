"""The fast check of real time finds what the search for a linearization finds, and names the
records."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spark_validation.real_time import ALWAYS, Findings, examined
from spark_validation.real_time import NEVER as FOREVER
from tests.spark_validation.wgl import NEVER, Append, Delivery, Operation, Read, by_key, linearizable

KEYS = 2


class History(NamedTuple):
    """A log and what its clients saw of it."""

    log: list[int]
    operations: list[Operation]

    @property
    def keys(self) -> list[int]:
        of = {one.value: one.key for one in self.operations if isinstance(one, Append)}
        return [of[value] for value in self.log]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Operations around moments that follow one another, so that they are linearizable; then one
    of them may get other times or another end."""
    log: list[int] = []
    operations: list[Operation] = []
    small = st.integers(0, 6)
    for moment in range(draw(st.integers(1, 8))):
        begun, done = moment * 2 - draw(small), moment * 2 + draw(small)
        kind = draw(st.sampled_from(["append", "append", "append", "unknown", "lost", "read", "delivery"]))
        if kind == "append":
            operations.append(Append(begun, done, moment, moment % KEYS, len(log)))
        elif kind in ("unknown", "lost"):
            operations.append(Append(begun, NEVER, moment, moment % KEYS))
        elif kind == "read":
            operations.append(Read(begun, done, len(log)))
        elif log:
            operations.append(Delivery(done, draw(st.integers(0, len(log) - 1))))
        if kind in ("append", "unknown"):
            log.append(moment)
    turned = draw(st.booleans())
    if turned and operations:
        at = draw(st.integers(0, len(operations) - 1))
        operations[at] = changed(draw, operations[at], len(log))
    return History(log, operations)


def changed(draw: st.DrawFn, operation: Operation, length: int) -> Operation:
    begun = draw(st.integers(-6, 20))
    done = begun + draw(st.integers(0, 6))
    if isinstance(operation, Read):
        return Read(begun, done, draw(st.integers(0, length)))
    if isinstance(operation, Delivery):
        return operation._replace(done=done)
    return operation._replace(begun=begun, done=done if operation.done < NEVER else NEVER)


def columns(history: History) -> tuple[list[Operation], list[NDArray[np.int64]]]:
    """The operations that took effect, and their place, sent_ns, done_ns, asked_ns."""
    rows: list[tuple[int, int, int, int]] = []
    shown: list[Operation] = []
    for one in history.operations:
        done = one.done if one.done < NEVER else FOREVER
        if isinstance(one, Append):
            if one.value not in history.log:
                continue
            rows.append((2 * history.log.index(one.value) + 1, one.begun, done, ALWAYS))
        elif isinstance(one, Read):
            rows.append((2 * one.end, ALWAYS, done, one.begun))
        else:
            rows.append((2 * one.offset + 2, ALWAYS, done, ALWAYS))
        shown.append(one)
    return shown, [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def faults(found: Findings) -> list[int]:
    return np.flatnonzero((found.overtaken_ns != FOREVER) | (found.missed_ns != ALWAYS)).tolist()


@given(histories())
@example(History([1, 0], [Append(0, 1, 0, 0, 1), Append(2, 3, 1, 0, 0)]))
@example(History([1, 0], [Append(0, NEVER, 0), Append(2, 3, 1, 0, 0)]))
@example(History([0], [Append(0, 1, 0, 0, 0), Read(2, 3, 0)]))
@example(History([0], [Append(5, 6, 0, 0, 0), Delivery(4, 0)]))
@example(History([0, 1], [Append(0, NEVER, 0), Append(0, NEVER, 1), Read(0, 1, 2), Read(2, 3, 1)]))
def test_the_fast_check_agrees_with_the_search(history: History) -> None:
    shown, rows = columns(history)
    clean = not shown or not faults(examined(*rows))
    assert clean == linearizable(history.log, history.operations)


@given(histories())
def test_a_linearizable_log_is_linearizable_by_key(history: History) -> None:
    if linearizable(history.log, history.operations):
        assert all(by_key(history.log, history.keys, history.operations).values())


def test_one_key_out_of_order_is_found_by_key() -> None:
    operations: list[Operation] = [
        Append(0, 1, 0, 0, 2),
        Append(2, 3, 1, 0, 0),
        Append(4, 5, 2, 1, 1),
    ]
    assert by_key([1, 2, 0], [0, 1, 0], operations) == {0: False, 1: True}


@given(histories())
def test_exactly_the_operations_of_a_pair_against_real_time_are_named(history: History) -> None:
    shown, rows = columns(history)
    if not shown:
        return
    found = examined(*rows)
    place, sent, done, requested = (column.tolist() for column in rows)
    for n in range(len(shown)):
        above = [done[m] for m in range(len(shown)) if place[m] > place[n]]
        below = [requested[m] for m in range(len(shown)) if place[m] < place[n]]
        first, last = min(above, default=FOREVER), max(below, default=ALWAYS)
        assert found.overtaken_ns[n] == (first if first < sent[n] else FOREVER)
        assert found.missed_ns[n] == (last if last > done[n] else ALWAYS)


@pytest.mark.parametrize(
    ("later", "earlier", "overtaken", "missed"),
    [
        (10, 11, FOREVER, ALWAYS),
        (9, 11, 9, ALWAYS),
        (10, 12, FOREVER, 12),
    ],
)
def test_times_beside_a_part_count_strictly(later: int, earlier: int, overtaken: int, missed: int) -> None:
    """An append that was sent at 10 and done at 11."""
    place, sent, done, requested = (np.array([value], np.int64) for value in (1, 10, 11, ALWAYS))
    found = examined(place, sent, done, requested, later, earlier)
    assert (found.overtaken_ns.tolist(), found.missed_ns.tolist()) == ([overtaken], [missed])


@given(histories(), st.integers(0, 16))
def test_a_part_with_the_times_beside_it_is_examined_as_in_the_entire_run(history: History, cut: int) -> None:
    shown, rows = columns(history)
    if not shown:
        return
    whole = examined(*rows)
    place, _, done, requested = rows
    for part, rest in ((place < cut, place >= cut), (place >= cut, place < cut)):
        if not part.any():
            continue
        later = int(np.min(done[rest & (place >= cut)], initial=FOREVER))
        earlier = int(np.max(requested[rest & (place < cut)], initial=ALWAYS))
        own = [row[part] for row in rows]
        found = examined(own[0], own[1], own[2], own[3], later, earlier)
        assert found.overtaken_ns.tolist() == whole.overtaken_ns[part].tolist()
        assert found.missed_ns.tolist() == whole.missed_ns[part].tolist()
