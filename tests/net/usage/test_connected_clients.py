"""The clients of a process's connections, added up and bounded."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.client_messages import MAX_LISTED, ConnectedClient
from kbroker.net.usage.connected_clients import AT_ONCE, MAX_PRINCIPAL, connected_clients


def connection(row: int, client_id: str | None = "etl", closed: bool = False, **changes: Any) -> Any:
    given = {"host": "10.0.0.1", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT", **changes}
    return SimpleNamespace(
        row=row,
        accepted=SimpleNamespace(host=given["host"]),
        bytes_of=client_id,
        software_name="librdkafka",
        software_version="2.4.0",
        principal=given["principal"],
        listener=SimpleNamespace(listener=given["listener"]),
        is_closed=lambda: closed,
    )


def rates(rows: Sequence[int]) -> NDArray[np.float64]:
    return np.array([(row, 2 * row) for row in rows], np.float64).reshape(-1, 2)


def test_connections_of_one_client_add_up() -> None:
    found = asyncio.run(connected_clients([connection(1), connection(2), connection(9, closed=True)], rates))
    client = ConnectedClient(
        "10.0.0.1", "etl", "librdkafka", "2.4.0", "User:ANONYMOUS", "PLAINTEXT", 2, 3.0, 6.0
    )
    assert found.clients == (client,)
    assert (found.left_out, found.left_out_connections) == (0, 0)


def test_each_difference_makes_another_client() -> None:
    different = [
        connection(1), connection(1, "b"), connection(1, None), connection(1, host="::1"),
        connection(1, principal="User:a"), connection(1, listener="SSL"),
    ]  # fmt: skip
    found = asyncio.run(connected_clients(different, rates)).clients
    assert len(found) == len(different)
    assert "" in {one.client_id for one in found}


def test_the_busiest_are_listed_and_the_others_are_counted() -> None:
    many = [connection(row, f"c-{row}") for row in range(MAX_LISTED + 20)] + [connection(0, "idle")] * 3
    found = asyncio.run(connected_clients(many, rates))
    assert [one.client_id for one in found.clients[:2]] == [f"c-{MAX_LISTED + 19}", f"c-{MAX_LISTED + 18}"]
    assert len(found.clients) == MAX_LISTED
    assert (found.left_out, found.left_out_connections) == (21, 23)


def test_idle_clients_are_in_the_order_of_their_connections() -> None:
    many = [connection(0, "few"), *[connection(0, "many")] * 3]
    assert [one.client_id for one in asyncio.run(connected_clients(many, rates)).clients] == ["many", "few"]


def test_no_connections_are_no_clients() -> None:
    assert asyncio.run(connected_clients([], rates)).clients == ()


def test_others_have_turns_meanwhile() -> None:
    turns = 0

    async def main() -> None:
        nonlocal turns
        work = asyncio.ensure_future(connected_clients([connection(1)] * (AT_ONCE * 10), rates))
        while not work.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(main())
    assert turns >= 10


def test_a_long_principal_is_cut() -> None:
    (found,) = asyncio.run(connected_clients([connection(1, principal="U" * 9999)], rates)).clients
    assert found.principal == "U" * MAX_PRINCIPAL
