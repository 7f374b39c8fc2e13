"""Bytes of connections are counted for the client ids that moved them, each once."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc.client_messages import MovedBytes
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.usage.client_bytes import MAX_CLIENT_ID, MAX_KEPT, MAX_REPORTED, ClientBytes


class Scene:
    """Connection rows, whose bytes the test moves."""

    def __init__(self, rows: int = 4) -> None:
        self.tables: Any = SimpleNamespace(connections=ConnectionRow.table(rows))
        self.bytes = ClientBytes(self.tables)

    def open(self, row: int, client_id: str | None = None) -> Any:
        self.tables.connections[row] = 0
        made: Any = SimpleNamespace(row=row, bytes_of=None)
        self.bytes.opened(made)
        if client_id is not None:
            self.bytes.named(made, client_id)
        return made

    def move(self, row: int, received: int, sent: int = 0) -> None:
        self.tables.connections[row, ConnectionRow.BYTES_IN] += received
        self.tables.connections[row, ConnectionRow.BYTES_OUT] += sent


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_bytes_of_all_connections_of_a_client_id_add_up(scene: Scene) -> None:
    for row, name in enumerate(("a", "a", "b")):
        scene.open(row, name)
        scene.move(row, 10, 100)
    assert set(scene.bytes.take()) == {MovedBytes("a", 20, 200), MovedBytes("b", 10, 100)}
    assert scene.bytes.take() == ()
    scene.move(1, 5)
    assert scene.bytes.take() == (MovedBytes("a", 5, 0),)


def test_bytes_moved_before_the_client_id_was_known_count_for_it(scene: Scene) -> None:
    connection = scene.open(0)
    scene.move(0, 40)
    scene.bytes.named(connection, "a")
    scene.move(0, 2)
    assert scene.bytes.take() == (MovedBytes("a", 42, 0),)


def test_a_connection_that_changes_its_client_id_counts_for_both(scene: Scene) -> None:
    connection = scene.open(0, "a")
    scene.move(0, 40)
    scene.bytes.named(connection, "b")
    scene.move(0, 2)
    assert set(scene.bytes.take()) == {MovedBytes("a", 40, 0), MovedBytes("b", 2, 0)}


def test_a_closed_connection_is_counted_and_its_row_is_reset(scene: Scene) -> None:
    connection = scene.open(0, "a")
    scene.move(0, 40)
    scene.bytes.closed(connection)
    assert scene.bytes.take() == (MovedBytes("a", 40, 0),)
    assert scene.bytes.take() == ()
    scene.open(0, "b")
    scene.move(0, 3)
    assert scene.bytes.take() == (MovedBytes("b", 3, 0),)


def test_a_client_without_an_id_is_counted(scene: Scene) -> None:
    scene.open(0)
    scene.bytes.named(scene.open(1), None)
    scene.move(0, 1)
    scene.move(1, 2)
    assert scene.bytes.take() == (MovedBytes("", 3, 0),)


def test_rows_that_are_added_later_count(scene: Scene) -> None:
    scene.open(0, "a")
    scene.move(0, 1)
    wider = ConnectionRow.table(8)
    wider[:4] = scene.tables.connections
    scene.tables.connections = wider
    scene.open(7, "b")
    scene.move(7, 2)
    assert set(scene.bytes.take()) == {MovedBytes("a", 1, 0), MovedBytes("b", 2, 0)}


def test_a_report_is_bounded_and_leaves_no_byte_out() -> None:
    scene = Scene(MAX_REPORTED + 50)
    for row in range(MAX_REPORTED + 50):
        scene.open(row, f"c-{row}")
        scene.move(row, row + 1)
    found = scene.bytes.take()
    assert len(found) == MAX_REPORTED + 1
    assert found[-1] == MovedBytes("other", sum(range(51)), 0)


def test_a_client_with_a_new_id_in_each_request_is_bounded(scene: Scene) -> None:
    connection = scene.open(0, "steady")
    scene.move(0, 1)
    other = scene.open(1)
    for number in range(2 * MAX_KEPT):
        scene.bytes.named(other, f"c-{number}")
        scene.move(1, 1)
    assert sum(each.received for each in scene.bytes.take()) == 1 + 2 * MAX_KEPT
    assert len(scene.bytes._names) == len(scene.bytes._numbers) == 3  # "", steady, and the last
    assert connection.bytes_of == "steady"
    scene.move(0, 5)
    scene.move(1, 6)
    last = MovedBytes(f"c-{2 * MAX_KEPT - 1}", 6, 0)
    assert set(scene.bytes.take()) == {MovedBytes("steady", 5, 0), last}


def test_long_client_ids_are_cut(scene: Scene) -> None:
    scene.open(0, "c" * 10_000)
    scene.move(0, 1)
    assert scene.bytes.take() == (MovedBytes("c" * MAX_CLIENT_ID, 1, 0),)


def test_a_connection_has_a_rate_that_follows_its_bytes() -> None:
    now = [0.0]
    scene = Scene()
    scene.bytes = ClientBytes(scene.tables, lambda: now[0])
    scene.open(0, "a")
    busy = scene.open(1, "b")
    for _ in range(20):
        scene.move(1, 1000, 500)
        scene.bytes.named(busy, "c")  # a settled connection keeps its rate
        now[0] += 0.5
        scene.bytes.take()
    (idle, rates) = scene.bytes.rates([0, 1]).tolist()
    assert idle == [0, 0]
    assert rates == pytest.approx([2000, 1000], rel=0.01)
    scene.open(1, "d")
    assert scene.bytes.rates([1]).tolist() == [[0, 0]]
    assert scene.bytes.rates([]).shape == (0, 2)
