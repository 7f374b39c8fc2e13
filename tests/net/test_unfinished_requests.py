"""Requests that have arrived in part: whose is closed when the arena is nearly full."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.principals import ANONYMOUS
from kbroker.net.rows import Chunk, Connection, Context, Flag
from kbroker.net.unfinished_requests import (
    EMPTY_GRACE_NS,
    FREE_SHARE,
    GRACE_NS,
    STALLED_GRACE_NS,
    UnfinishedRequests,
)
from kbroker.net.usage.request_counts import SHORT
from tests.net.tables import new_tables

CHUNKS = 32
BEGAN_NS = 10


class Scene:
    """Connections with a part of a request each, and an arena of CHUNKS that is full but for
    `free` chunks. A connection that is refused frees one. refused: the rows, in order."""

    def __init__(self, free: int = 1) -> None:
        self.tables = new_tables()
        self.refused: list[int] = []
        self.process: Any = SimpleNamespace(tables=self.tables, connections={}, refuse=self._refuse)
        self.requests = UnfinishedRequests(self.process)
        self.words = self.tables.words
        self.words[Context.CHUNK_COUNT] = CHUNKS
        self.words[Context.FREE_CHUNK_COUNT] = free
        self.words[Context.STALLED] = 0

    def _refuse(self, connection: Any, why: str) -> None:
        assert why == SHORT
        self.refused.append(connection.row)
        self.words[Context.FREE_CHUNK_COUNT] += 1

    def connection(self, host: str = "a", user: str = ANONYMOUS, size: int = 100, flags: int = 0) -> int:
        row = self.tables.take_row(0, flags, 0)
        words = self.tables.connections[row]
        words[Connection.CHUNK], words[Connection.START], words[Connection.LIMIT] = 0, 50, 50 + size
        self.process.connections[row] = SimpleNamespace(
            row=row, user=user, accepted=SimpleNamespace(host=host)
        )
        return row

    def set(self, row: int, word: int, value: int) -> None:
        self.tables.connections[row, word] = value

    def close_after(self, age_ns: int) -> list[int]:
        """The rows that are closed when the requests have that age."""
        count = self.requests.close_oldest(BEGAN_NS + age_ns)
        assert count == len(self.refused)
        return self.refused


@pytest.mark.parametrize(("free", "grace_ns"), [(1, GRACE_NS), (0, EMPTY_GRACE_NS)])
def test_a_request_has_a_grace_that_is_shorter_when_nothing_is_free(free: int, grace_ns: int) -> None:
    scene = Scene(free)
    row = scene.connection()
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(grace_ns - 1) == []
    assert scene.close_after(grace_ns) == [row]


def test_no_request_is_closed_while_none_waits_for_room() -> None:
    scene = Scene()
    scene.connection()
    scene.requests.update(BEGAN_NS)
    scene.words[Context.STALLED] = -1
    assert scene.close_after(GRACE_NS) == []


@pytest.mark.parametrize(("more", "closed"), [(0, True), (1, False)])
def test_requests_are_closed_when_no_more_than_the_reserve_is_free(more: int, closed: bool) -> None:
    scene = Scene()
    scene.words[Context.FREE_CHUNK_COUNT] = CHUNKS // Chunk.RESERVED_SHARE + more
    scene.connection()
    scene.requests.update(BEGAN_NS)
    assert bool(scene.close_after(GRACE_NS)) is closed


def test_no_more_requests_are_closed_than_the_room_that_is_needed() -> None:
    scene = Scene()
    rows = [scene.connection() for _ in range(9)]
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(GRACE_NS) == rows[: CHUNKS // FREE_SHARE - 1]


def test_the_client_that_holds_the_most_loses_its_oldest_request_first() -> None:
    scene = Scene()
    second = scene.connection("b", size=150)
    first = scene.connection("b", size=160)
    other = scene.connection("a", size=200)
    scene.requests.update(BEGAN_NS)
    scene.set(second, Connection.REQUESTS, 1)  # a newer request than that of `first`
    scene.requests.update(BEGAN_NS + 1)
    assert scene.close_after(1 + GRACE_NS) == [first, other, second]


def test_a_client_that_has_logged_in_is_counted_by_its_name() -> None:
    scene = Scene(free=2)
    other = scene.connection("a", size=150)
    one = scene.connection("b", "u", size=100)
    scene.connection("c", "u", size=100)
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(GRACE_NS) == [one, other]


def test_the_addresses_of_an_ipv6_network_are_one_client() -> None:
    scene = Scene(free=2)
    scene.connection("a", size=150)
    one = scene.connection("2001:db8::1", size=100)
    scene.connection("2001:db8::2", size=100)
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(GRACE_NS)[0] == one


def test_a_request_that_waits_for_room_itself_is_closed_later_and_after_the_others() -> None:
    scene = Scene()
    stalled = scene.connection(flags=Flag.STALLED)
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(STALLED_GRACE_NS - 1) == []
    late = scene.connection()
    scene.requests.update(BEGAN_NS + 1)
    assert scene.close_after(STALLED_GRACE_NS + 1) == [late, stalled]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (Connection.FLAGS, 0),
        (Connection.FLAGS, Flag.OPEN | Flag.BUSY),
        (Connection.CHUNK, -1),
        (Connection.HEAD, 0),
    ],
)
def test_a_connection_without_a_part_of_a_request_is_not_closed(word: int, value: int) -> None:
    scene = Scene()
    scene.set(scene.connection(), word, value)
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(STALLED_GRACE_NS) == []


@pytest.mark.parametrize("word", [Connection.GENERATION, Connection.REQUESTS])
def test_the_age_of_a_request_begins_with_it(word: int) -> None:
    scene = Scene()
    row = scene.connection()
    scene.requests.update(BEGAN_NS)
    scene.requests.update(BEGAN_NS + 1)
    scene.set(row, word, 7)
    scene.requests.update(BEGAN_NS + GRACE_NS)
    assert scene.close_after(2 * GRACE_NS - 1) == []
    assert scene.close_after(2 * GRACE_NS) == [row]


def test_the_age_of_a_request_is_kept_when_the_table_of_connections_grows() -> None:
    scene = Scene()
    row = scene.connection()
    scene.requests.update(BEGAN_NS)
    scene.tables.grow_connections(2 * len(scene.tables.connections))
    scene.requests.update(BEGAN_NS + 1)
    assert scene.close_after(GRACE_NS) == [row]


def test_a_connection_that_has_gone_is_passed_over() -> None:
    scene = Scene()
    del scene.process.connections[scene.connection()]
    row = scene.connection()
    scene.requests.update(BEGAN_NS)
    assert scene.close_after(GRACE_NS) == [row]
