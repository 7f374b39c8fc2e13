"""Series of clients: deltas add up, their number is bounded, and they go with their client."""

from kbroker.control.telemetry.points import Key, Labels, Point
from kbroker.control.telemetry.series import KEPT_MS, MAX_OF_A_CLIENT, ClientSeriesTable

NOWHERE = Labels("", "", "", "")


def client(number: int) -> dict[str, str]:
    return {"client_instance_id": f"i{number}", "client_id": f"c\n{number}"}


def point(name: str, value: float = 1.0, delta: bool = False) -> Point:
    return Point(Key(name, NOWHERE, delta), value, delta)


def shown(series: ClientSeriesTable) -> dict[str, dict[str, float]]:
    return {one.instance_id: {s.metric: s.value for s in one.samples} for one in series.all()}


def test_deltas_add_up_and_values_are_set() -> None:
    series = ClientSeriesTable(10)
    for value in (3.0, 4.0):
        series.add(b"1", client(1), [point("d", value, delta=True), point("g", value)])
    assert shown(series) == {"i1": {"d": 7.0, "g": 4.0}}
    assert series.all()[0].client_id == "c?1"


def test_a_push_without_points_takes_no_memory() -> None:
    series = ClientSeriesTable(10)
    for number in range(100):
        series.add(bytes([number]), client(number), [])
        series.client_left(bytes([number]), 0)
    assert series.all() == ()
    series.add(b"1", client(1), [point("a")])
    series.add(b"1", client(1), [])
    assert shown(series) == {"i1": {"a": 1.0}}


def test_a_client_has_a_bounded_number_of_series() -> None:
    series = ClientSeriesTable(10_000)
    series.add(b"1", client(1), [point(f"m{number}") for number in range(MAX_OF_A_CLIENT + 7)])
    assert len(shown(series)["i1"]) == MAX_OF_A_CLIENT
    assert series.left_out == 7


def test_existing_clients_keep_their_series_when_the_table_is_full() -> None:
    series = ClientSeriesTable(3)
    series.add(b"1", client(1), [point("a"), point("b")])
    for number in range(2, 50):
        series.add(bytes([number]), client(number), [point("a"), point("b")])
    series.add(b"1", client(1), [point("a", 5.0)])
    assert shown(series)["i1"] == {"a": 5.0, "b": 1.0}
    assert sum(map(len, shown(series).values())) == 3


def test_clients_that_are_gone_make_room_first() -> None:
    series = ClientSeriesTable(2)
    series.add(b"1", client(1), [point("a"), point("b")])
    series.client_left(b"1", 0)
    series.add(b"2", client(2), [point("a")])
    assert shown(series) == {"i2": {"a": 1.0}}


def test_series_outlive_their_client_for_a_while() -> None:
    series = ClientSeriesTable(10)
    series.add(b"1", client(1), [point("a")])
    series.client_left(b"1", 1000)
    series.sweep(1000 + KEPT_MS - 1)
    assert shown(series)
    series.sweep(1000 + KEPT_MS)
    assert not shown(series)
    assert not series.left_out


def test_a_returning_client_continues_its_series() -> None:
    series = ClientSeriesTable(10)
    series.add(b"1", client(1), [point("a", 1.0, delta=True)])
    series.client_left(b"1", 0)
    series.add(b"1", client(1), [point("a", 1.0, delta=True)])
    series.sweep(10 * KEPT_MS)
    assert shown(series) == {"i1": {"a": 2.0}}
