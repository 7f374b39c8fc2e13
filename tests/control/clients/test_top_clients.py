"""Bytes by client id: a bounded number of counters, of which none falls."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.clients.top_clients import MAX_OTHERS, ROUND_MS, TopClients
from kbroker.ipc.client_messages import OTHER, MovedBytes


def add(top: TopClients, now_ms: int, moved: Iterable[tuple[str, int]]) -> None:
    for name, received in moved:
        top.add(MovedBytes(name, received, 0), now_ms)


def received(top: TopClients) -> dict[str, int]:
    return {each.client_id: each.received for each in top.all()}


def test_each_client_id_has_a_counter_while_there_is_room() -> None:
    top = TopClients(max_clients=2)
    add(top, 0, [("a", 1), ("b", 2), ("a", 3), ("c", 9)])
    assert received(top) == {"a": 4, "b": 2, OTHER: 9}


def test_a_busy_client_takes_the_counter_of_a_quiet_one() -> None:
    top = TopClients(max_clients=2)
    add(top, 0, [("a", 100), ("b", 10), ("c", 21)])
    add(top, ROUND_MS, [("c", 5), ("b", 3)])
    assert received(top) == {"a": 100, "c": 5, OTHER: 21 + 3}


def test_a_client_that_is_hardly_busier_does_not_take_a_counter() -> None:
    top = TopClients(max_clients=1)
    add(top, 0, [("a", 10), ("b", 20)])
    add(top, ROUND_MS, [("b", 1)])
    assert received(top) == {"a": 10, OTHER: 21}


def test_a_client_that_calls_itself_other_is_one_of_the_others() -> None:
    top = TopClients()
    add(top, 0, [(OTHER, 5)])
    assert received(top) == {OTHER: 5}


def test_names_are_printable_and_what_is_remembered_is_bounded() -> None:
    top = TopClients(max_clients=1)
    add(top, 0, [("a\nb", 1)])
    add(top, 0, [(str(number), 1) for number in range(3 * MAX_OTHERS)])
    assert received(top) == {"a?b": 1, OTHER: 3 * MAX_OTHERS}
    assert len(top._others) == MAX_OTHERS


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 1000), st.integers(0, ROUND_MS))))
def test_no_byte_is_lost_and_no_counter_of_a_client_falls(steps: list[tuple[str, int, int]]) -> None:
    top = TopClients(max_clients=3)
    now_ms = 0
    before: dict[str, int] = {}
    total = lost = 0
    for name, size, later_ms in steps:
        now_ms += later_ms
        add(top, now_ms, [(name, size)])
        total += size
        found = received(top)
        lost += sum(count for known, count in before.items() if known not in found)
        assert sum(found.values()) + lost == total
        assert all(found[known] >= count for known, count in before.items() if known in found)
        before = found
