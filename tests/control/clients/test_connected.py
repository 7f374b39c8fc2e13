"""Clients of all network processes in one list."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from kbroker.control.clients.connected import added_up, connected_clients
from kbroker.ipc.client_messages import ConnectedClient, ConnectedClients
from kbroker.ipc.link import LinkClosed


def client(name: str, connections: int = 1, received: float = 0.0) -> ConnectedClient:
    return ConnectedClient("::1", name, "s", "1", "User:u", "SSL", connections, received, 0.0)


class Link:
    """A network process that answers, or has died."""

    def __init__(self, answer: ConnectedClients | None) -> None:
        self.answer = answer

    def call(self, _: Any) -> Awaitable[Any]:
        async def answered() -> ConnectedClients:
            if self.answer is None:
                raise LinkClosed("gone")
            return self.answer

        return answered()


def test_the_connections_of_a_client_to_all_processes_add_up() -> None:
    one = ConnectedClients((client("a", 2, 5.0), client("b")), 3, 4)
    two = ConnectedClients((client("a", 1, 1.0),), 1, 1)
    links: Any = [Link(one), Link(None), Link(two)]
    found = asyncio.run(connected_clients(links))
    assert found == ConnectedClients((client("a", 3, 6.0), client("b")), 4, 5)


def test_the_list_is_bounded() -> None:
    found = added_up([ConnectedClients(tuple(client(f"c-{n}", n) for n in range(1, 6)), 1, 10)], 2)
    assert [one.client_id for one in found.clients] == ["c-5", "c-4"]
    assert (found.left_out, found.left_out_connections) == (4, 10 + 1 + 2 + 3)


def test_names_are_printable() -> None:
    (found,) = added_up([ConnectedClients((client("a\x1b[2J\u202e"),))]).clients
    assert found.client_id == "a?[2J?"
